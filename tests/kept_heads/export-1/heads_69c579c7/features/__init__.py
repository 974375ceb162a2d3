"""From hidden states to the vectors that heads are trained on."""
