"""Published protocols, reproduced."""
