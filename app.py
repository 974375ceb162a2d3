"""Builds and serves the page: ``python app.py`` here, and the entry of a Space."""

import sys

from heads import plugins
from heads.errors import HeadsError

if __name__ == "__main__":
    try:
        plugins.enter_server()  # its log begins before anything that may write
        from heads.interfaces.web.app import build

        page = build()
        page.launch()
    except HeadsError as error:  # a setting of the server that could never work
        print(f"heads: {error}", file=sys.__stderr__)  # past the log, which holds no message
        sys.exit(2)
    page.wait()
