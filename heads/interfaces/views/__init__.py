"""Results as HTML, charts and tables, for the page and for reports."""
