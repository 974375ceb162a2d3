"""What one can choose: poolings, layers, heads, base models, samples."""
