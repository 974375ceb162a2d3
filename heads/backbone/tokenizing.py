"""Loads tokenizers; in public mode those of visitors' models run in a process with limits.

What a tokenizer.json asks for is computed in Rust, which no exception ends: where memory lacks, the
process is over. So a child process loads it first, and another one takes texts apart.
"""

import copy
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import heads
from heads import interruption, plugins
from heads.backbone.downloads import end_process
from heads.backbone.exported import backbone_config, is_exported
from heads.backbone.models import BUNDLED, CHOOSE_ANOTHER
from heads.backbone.safety import Checkpoint
from heads.backbone.tokenizer_check import check_structure, check_tokenizer
from heads.errors import ModelError
from heads.settings import current_limits, environment_with

LOAD_SECONDS = 60.0
SECONDS = 10.0  # of one text
ANSWER_BYTES = 50_000_000

REWRITTEN = ("normalizer", "post_processor")  # what an export changes of a tokenizer
ORIGINAL = "head_to_head"  # of an exported tokenizer, what it had before a recipe changed it

_checked = set[tuple[str, str]]()  # checkpoints whose tokenizers a child process could load


def load_tokenizer(checkpoint: Checkpoint, **settings: Any) -> Any:
    """Load the tokenizer of a checkpoint; raise ModelError if it needs too much memory or time."""
    from transformers import AutoTokenizer

    is_ours = checkpoint.id == BUNDLED or plugins.find_base_models(checkpoint.id) is not None
    is_isolated = current_limits().public and not is_ours
    try:
        if not is_isolated:
            check_tokenizer(checkpoint.folder)
        elif (key := (checkpoint.id, checkpoint.revision)) not in _checked:
            with _Process() as process:
                process.ask(LOAD_SECONDS, folder=str(checkpoint.folder.resolve()))
            _checked.add(key)
    except ModelError as error:
        raise ModelError(f"{checkpoint.id} cannot be used: {error.what}", error.hint) from None
    if is_exported(checkpoint.config):  # its own configuration asks for its code
        settings["config"] = backbone_config(checkpoint.config)
    tokenizer = AutoTokenizer.from_pretrained(
        checkpoint.folder, trust_remote_code=False, **settings
    )
    if is_exported(checkpoint.config):
        _restore(tokenizer, checkpoint.id, is_isolated)
    return isolate(tokenizer) if is_isolated else tokenizer


def _restore(tokenizer: Any, model: str, is_isolated: bool) -> None:
    """Undo what an export changed in a tokenizer; raise ModelError where that is not allowed."""
    original = tokenizer.init_kwargs.pop(ORIGINAL, None)
    if not isinstance(original, dict) or not tokenizer.is_fast:
        return
    if is_isolated:
        what = f"{model} was exported with a prefix, a prompt, pairs or windows"
        raise ModelError(f"{what}, which is read in local mode only.", CHOOSE_ANOTHER)
    from tokenizers import Tokenizer

    parts = {name: original[name] for name in REWRITTEN if name in original}
    state = {**json.loads(tokenizer.backend_tokenizer.to_str()), **parts}
    check_structure(state)
    length = original.get("model_max_length")
    if type(length) is int:
        tokenizer.model_max_length = length
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))


def isolate(tokenizer: Any) -> Any:
    """Let a process with limits take texts apart for a tokenizer, if that is in Rust."""
    if tokenizer.is_fast:
        tokenizer._tokenizer = _IsolatedTokenizer(tokenizer._tokenizer)
    return tokenizer


def isolate_alike(tokenizer: Any, other: Any) -> Any:
    """Isolate a tokenizer where another one, of which it is a copy, is isolated."""
    is_isolated = isinstance(getattr(other, "_tokenizer", None), _IsolatedTokenizer)
    return isolate(tokenizer) if is_isolated else tokenizer


class _Process:
    """A process that runs a tokenizer, and ends with this object or this process."""

    def __init__(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "heads.backbone.tokenizer_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment_with(Path(heads.__file__).parents[1])
            | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self.end = weakref.finalize(self, end_process, process)

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def ask(self, seconds: float, **request: Any) -> Any:
        """Return the answer to a request; raise ModelError if it fails or needs too much."""
        try:
            self._stdin.write(json.dumps({"seconds": seconds, **request}).encode() + b"\n")
            self._stdin.flush()
            line = self._stdout.readline(ANSWER_BYTES)
        except OSError:  # it is over already
            line = b""
        if not line.endswith(b"\n"):
            self.end()
            what = "its tokenizer needs more time or memory than this place allows."
            raise ModelError(what, CHOOSE_ANOTHER)
        answer = json.loads(line)
        if "wrong" in answer:
            raise ModelError(answer["wrong"], CHOOSE_ANOTHER)
        return answer["value"]


class _IsolatedTokenizer:
    """Stands for a tokenizer in Rust: a process takes texts apart, and all else is its own."""

    def __init__(self, tokenizer: Any) -> None:
        vars(self).update(_tokenizer=tokenizer, _lock=threading.Lock(), _process=None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying and pickling look for
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._tokenizer, name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_IsolatedTokenizer":
        return _IsolatedTokenizer(copy.deepcopy(self._tokenizer, memo))

    def encode_batch(
        self, input: Sequence[Any], add_special_tokens: bool = True, is_pretokenized: bool = False
    ) -> list[Any]:
        from tokenizers import Encoding

        settings = {
            "add": add_special_tokens,
            "split": self.encode_special_tokens,
            "truncation": self.truncation,
            "padding": self.padding,
        }
        encodings = []
        for texts in input:
            interruption.check()
            texts = [texts] if isinstance(texts, str) else texts
            encodings.append(Encoding())
            encodings[-1].__setstate__(self._ask(texts=texts, **settings).encode())
        return encodings

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self._ask(ids=list(ids), skip=skip_special_tokens)

    def _ask(self, **request: Any) -> Any:
        """Ask its process, which is started where there is none or it has ended."""
        with self._lock:
            process = self._process
            if process is None or not process.end.alive:
                process = vars(self)["_process"] = _Process()
                process.ask(LOAD_SECONDS, tokenizer=self._tokenizer.to_str())
            return process.ask(SECONDS, **request)
