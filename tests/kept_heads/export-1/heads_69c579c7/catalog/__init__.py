"""Every XForSequenceClassification of Transformers as data."""
