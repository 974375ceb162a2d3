"""The forward pass of BERT-like models over texts without padding."""
