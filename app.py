"""Builds and launches the page: ``python app.py`` here, and the entry of a Space."""

import sys

from heads.interfaces import logs

if __name__ == "__main__":
    logs.begin()  # before anything that may write

from heads.errors import HeadsError
from heads.interfaces.web.app import LAUNCH, build

try:
    demo = build()
except HeadsError as error:  # a setting of the server that could never work
    print(f"heads: {error}", file=sys.__stderr__)  # past the log, which holds no message
    sys.exit(2)

if __name__ == "__main__":
    demo.launch(**LAUNCH)
