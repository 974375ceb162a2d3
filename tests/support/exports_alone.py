"""Exports as they answer in a process that knows nothing of this package."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

USAGE_TEXTS = ["a text", "another, longer text"], ["a second text", "one more"]  # of an ONNX file
READ_ALONE = """
import contextlib, io, json, os, sys
sys.modules["heads"] = None
import torch
from pathlib import Path
from transformers import AutoTokenizer, logging, pipeline
logging.set_verbosity_error()
logging.disable_progress_bar()


def read_model(folder, given, sides=("right", "left")):
    pipe = pipeline("text-classification", folder, trust_remote_code=True)
    found = []
    for side in sides:
        tokens = pipe.tokenizer(*given, padding=True, padding_side=side, truncation=True,
                                return_tensors="pt")
        with torch.no_grad():
            found.append(pipe.model(**tokens).logits.tolist())
    rows = [dict(zip(("text", "text_pair"), row)) for row in zip(*given)]
    return found, [answer["label"] for answer in pipe(rows, truncation=True, batch_size=4)]


def read_native(folder, given):
    return read_model(folder, given, ["right"])  # on which its class is defined


def read_sentences(folder, given):
    from sentence_transformers import CrossEncoder, SentenceTransformer
    if len(given) == 2:
        model = CrossEncoder(folder, device="cpu", trust_remote_code=True)
        return [model.predict(list(zip(*given)), convert_to_tensor=True).tolist()], []
    model = SentenceTransformer(folder, device="cpu")
    found = model.encode(*given, output_value=None)
    vectors = [one["sentence_embedding"].tolist() for one in found]
    return [[one["logits"].tolist() for one in found]], vectors


def run_code(code):
    own, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, own)
    return own, printed.getvalue().splitlines()


def read_adapter(folder, given):
    card = Path(folder, "README.md").read_text("utf-8")
    own, _ = run_code(card.partition("```python")[2].partition("```")[0])
    tokens = AutoTokenizer.from_pretrained(folder)(*given, padding=True, truncation=True,
                                                   return_tensors="pt")
    with torch.no_grad():
        return [own["model"].eval()(**tokens).logits.tolist()], []


def read_onnx(code, given):
    own, printed = run_code(code)
    return [own["logits"].tolist()], printed[-1]


READ = {"native": read_native, "code": read_model, "adapter": read_adapter,
        "sentences": read_sentences, "onnx": read_onnx}
for line in sys.stdin:
    target, *question = json.loads(line)
    print(json.dumps(READ[target](*question)), flush=True)
"""


def run_alone(command: Sequence[str], lines: str, cwd: Path) -> str:
    """Return what a command prints that gets these lines, in a process of its own."""
    own = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_MODULES_CACHE": str(cwd / "modules")}
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, **own},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def read_alone(questions: Sequence[Any], cwd: Path) -> list[Any]:
    """Return logits, with padding on either side, and answers of exports.

    Args:
        questions: The target of each, its folder (of an ONNX file its usage), its texts and, where
            there are any, second texts.
    """
    lines = "\n".join(map(json.dumps, questions))
    told = run_alone([sys.executable, "-c", READ_ALONE], lines, cwd)
    return [json.loads(line) for line in told.splitlines()]
