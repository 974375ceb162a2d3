"""One pass over texts without padding, for base models built of BERT's block."""
