"""Whether a classifier's answer depends on padding, and why."""
