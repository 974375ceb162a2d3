"""Measurements made once, for a page of the docs: see README.md."""
