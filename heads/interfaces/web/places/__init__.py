"""The three places of the page: Try, Your data, Learn."""
