"""A base model with a head on it, and what it predicts."""
