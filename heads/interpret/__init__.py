"""What a head does and why: comparison, explanation, attribution, ablation."""
