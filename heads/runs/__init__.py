"""A grid of heads trained on one's own rows, kept in a folder and compared."""
