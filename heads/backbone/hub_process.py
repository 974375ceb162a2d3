"""The process that asks the Hub for a page which can end it: see `heads.backbone.downloads`."""

import json
import os
import sys
import threading
from dataclasses import asdict
from typing import Any

from huggingface_hub import constants

from heads.backbone import hub
from heads.errors import ModelError
from heads.settings import Limits

PART = 64_000  # bytes


def main() -> None:
    """Does what its argument asks, and prints what it found, or what is wrong, as JSON."""
    asked = json.loads(sys.argv[1])
    model, limits = asked["model"], Limits(**asked["limits"])
    threading.Thread(target=_ends_with_parent, daemon=True).start()
    found: dict[str, Any]
    try:
        if asked["does"] == "describe":
            found = asdict(hub.describe(model, limits))
        else:
            # Its files grow in such parts: it is by their growth that one sees how far they are.
            constants.DOWNLOAD_CHUNK_SIZE = PART
            found = {"folder": str(hub.download(model, limits))}
    except ModelError as error:
        found = {"wrong": [error.what, error.hint]}
    sys.stdout.write(json.dumps(found))


def _ends_with_parent() -> None:
    """Ends where whoever started it is gone: nothing else would."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
