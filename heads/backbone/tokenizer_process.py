"""The process in which tokenizers of visitors' models run: see `heads.backbone.tokenizing`."""

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from heads import registration
from heads.backbone.exported import backbone_config, read_config
from heads.backbone.tokenizer_check import check_tokenizer
from heads.errors import ModelError

MEMORY = 2_000_000_000  # bytes of addresses above those of the libraries


def main() -> None:
    """Answer requests from stdin, each within its seconds, until stdin is closed."""
    registration.cancel()  # the models that it would import take memory
    tokenizer: Any = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        # A thread without Python ends this process, whatever Rust does meanwhile.
        faulthandler.dump_traceback_later(request["seconds"], exit=True)
        answer: dict[str, Any]
        try:
            if "folder" in request:
                _load_folder(Path(request["folder"]))
                answer = {"value": None}
            elif "tokenizer" in request:
                _limit_memory()
                tokenizer, answer = Tokenizer.from_str(request["tokenizer"]), {"value": None}
            else:
                answer = {"value": _run(tokenizer, request)}
        except ModelError as error:
            answer = {"wrong": error.what}
        except BaseException as error:  # also a panic of Rust, which is no Exception
            answer = {"wrong": f"its tokenizer fails ({type(error).__name__})."}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
        faulthandler.cancel_dump_traceback_later()


def _load_folder(folder: Path) -> None:
    """Load a tokenizer as `heads.backbone.tokenizing` will, to find out what it needs."""
    from transformers import AutoTokenizer

    _limit_memory()
    check_tokenizer(folder)
    config = read_config(folder)
    options = {"config": backbone_config(config)} if config else {}
    AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **options)


def _limit_memory() -> None:
    """Limit what this process may take from now on; only Linux says how much that is."""
    pages = Path("/proc/self/statm")
    if pages.is_file():
        import resource

        size = int(pages.read_text("utf-8").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def _run(tokenizer: Any, request: dict[str, Any]) -> Any:
    if "ids" in request:
        return tokenizer.decode(request["ids"], skip_special_tokens=request["skip"])
    tokenizer.encode_special_tokens = request["split"]
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if request["truncation"]:
        tokenizer.enable_truncation(**request["truncation"])
    if request["padding"]:
        tokenizer.enable_padding(**request["padding"])
    encoding = tokenizer.encode(*request["texts"], add_special_tokens=request["add"])
    return encoding.__getstate__().decode()


if __name__ == "__main__":
    main()
