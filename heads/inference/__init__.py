"""Predict with a trained head, and score it on labelled rows."""
