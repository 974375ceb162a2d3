"""Many heads at once: the same rows, the same seeds, settings chosen fairly for each."""
