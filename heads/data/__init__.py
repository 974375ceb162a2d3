"""Files to rows: reading, columns, labels, checks, and how rows are split."""
