"""Heads that several tests look at."""

from quick_heads import trained_once as trained  # noqa: F401
