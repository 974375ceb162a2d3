"""Whether a served classifier answers as the head of its checkpoint does, and if not, why."""
