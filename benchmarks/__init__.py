"""Measurements: every speed is set against a floor or a peer in the same run."""
