"""Runs: a corpus, a base model and a grid of recipes, kept in a folder each."""
