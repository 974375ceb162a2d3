"""Base models: finding, checking and loading them, and their forward pass."""
