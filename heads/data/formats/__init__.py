"""The formats of files: to a `Table` or a stream of rows, and back to a file with more columns."""
