"""How data moves: one arrow a file, value in, value out."""
