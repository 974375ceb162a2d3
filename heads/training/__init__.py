"""Training heads: searching their settings, many at once."""
