"""Features that plug into the core: each folder can be removed, and nothing else breaks."""
