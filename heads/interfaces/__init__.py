"""Who asks: the page, the shell, the API. Nothing above imports this."""
