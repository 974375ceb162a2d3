"""What the answers of heads are worth: measures, paired comparisons and a verdict."""
