"""Metrics, intervals, comparisons and verdicts."""
