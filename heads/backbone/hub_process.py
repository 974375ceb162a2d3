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
from heads.settings import Limits, use_limits

PART = 64_000  # bytes


def main() -> None:
    """Do what the argument asks, and print what was found, or the error, as JSON."""
    asked = json.loads(sys.argv[1])
    threading.Thread(target=_ends_with_parent, daemon=True).start()
    with use_limits(Limits(**asked["limits"])):
        try:
            answer = _ask_hub(asked["does"], asked["model"])
        except ModelError as error:
            answer = {"wrong": [error.what, error.hint]}
    sys.stdout.write(json.dumps(answer))


def _ask_hub(does: str, model: str) -> dict[str, Any]:
    if does == "describe":
        return asdict(hub.describe(model))
    # Files grow in such parts: it is by their growth that the parent sees how far they are.
    constants.DOWNLOAD_CHUNK_SIZE = PART
    return {"folder": str(hub.download(model))}


def _ends_with_parent() -> None:
    """Ends where whoever started it is gone: nothing else would."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
