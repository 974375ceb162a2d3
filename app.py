"""Builds and launches the page: ``python app.py`` here, and the entry of a Space."""

import os

from heads.interfaces import logs

if __name__ == "__main__":
    logs.begin()  # before anything that may write

from heads.interfaces.web.app import LAUNCH, build

demo = build()

if __name__ == "__main__":
    demo.launch(mcp_server=bool(os.environ.get("GRADIO_MCP_SERVER")) or None, **LAUNCH)
