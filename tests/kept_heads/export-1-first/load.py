"""attention+mlp on base: texts in, labels out.

    from load import load

    classify = load()
    classify(["a text", "another text"])  # [{"label": …, "score": …}, …]
    classify.logits(["a text"])  # (n, c), before the softmax
    classify(["a text"], ["a second text"])  # for pairs, where it was trained on them

Written by Head to Head 0.1.0. It needs safetensors, torch, transformers.
Legend: n texts, t tokens, d width of a token's state, c classes.
"""

import json
import unicodedata
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer


class attention(nn.Module):
    """A learned query decides how much each token counts; several with the option queries.

    Formula: h = Σ aᵢ hᵢ, a = softmax(q · hᵢ / √d), one h for each query side by side
    Source: hierarchical attention (Yang et al. 2016), without its hidden layer.
    """

    def __init__(self, width: int, *, queries: int = 1) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, width) * 0.02)

    def forward(self, mask: Tensor, states: Tensor) -> Tensor:
        scores = self.query @ states.transpose(1, 2) / states.shape[-1] ** 0.5  # (n, k, t)
        return scores.masked_fill(mask[:, None] == 0, -torch.inf).softmax(dim=-1)


class Head(nn.Module):
    """attention+mlp

    A learned query decides how much each token counts; several with the option queries.
    Linear to a hidden layer, activation, linear: made for wide inputs such as cls@cat4.

    h = Σ aᵢ hᵢ, a = softmax(q · hᵢ / √d), one h for each query side by side
    logits = W₂ drop(relu(W₁ h + b₁)) + b₂
    """

    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.ModuleDict({"pooling": attention(32, queries=1)})
        self.head = nn.Sequential(OrderedDict([
            ("hidden", nn.Linear(32, 256)),
            ("activation", nn.ReLU()),
            ("dropout", nn.Dropout(0.1)),
            ("output", nn.Linear(256, 3)),
        ]))

    def forward(self, mask: Tensor, states: Tensor) -> Tensor:
        weights = self.reader["pooling"](mask, states)  # (n, k, t)
        vectors = (weights @ states).flatten(1)
        return self.head(vectors)


class Classifier:
    """The base model and the head on it: texts in, labels out."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / "head.json").read_text("utf-8"))
        self.classes: list[str] = facts["classes"]
        self.tokenizer = AutoTokenizer.from_pretrained(
            folder / "backbone", split_special_tokens=True
        )
        self.backbone = AutoModel.from_pretrained(
            folder / "backbone", dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self.head = Head().eval()
        self.head.load_state_dict(load_file(folder / "head.safetensors"))

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The likeliest label of each text, and its probability."""
        scores = self.logits(texts, pairs).softmax(dim=1)
        return [
            {"label": self.classes[int(row.argmax())], "score": float(row.amax())}
            for row in scores
        ]

    @torch.no_grad()
    def logits(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """One number a text and class, before the softmax, (n, c)."""
        rows = self.encode(texts, pairs)
        logits = torch.zeros(len(rows), len(self.classes))
        left = sorted(range(len(rows)), key=lambda row: -len(rows[row]["input_ids"]))
        while left:  # the longest first, in batches of like length
            longest = len(rows[left[0]]["input_ids"])
            batch = left[: 2048 // longest or 1]
            left = left[len(batch) :]
            logits[batch] = self.read([rows[row] for row in batch])
        return logits

    def encode(self, texts: Sequence[str], pairs: Sequence[str]) -> list[dict[str, list[int]]]:
        """Cuts texts into tokens: rows of numbers for each text."""
        if isinstance(texts, str) or isinstance(pairs, str):
            raise ValueError("The texts must be a list: write [text] for a single one.")
        if pairs and len(pairs) != len(texts):
            raise ValueError("Give one second text for each text, or none.")
        if not texts:
            return []
        given = [[cleaned(text) for text in side] for side in (texts, pairs) if side]
        cut = self.tokenizer(*given, truncation=True, max_length=128)
        names = ("input_ids", "token_type_ids")
        rows = [{name: cut[name][row] for name in names} for row in range(len(texts))]
        return rows

    def read(self, rows: Sequence[dict[str, list[int]]]) -> Tensor:
        """Rows of tokens to logits, (n, c)."""
        inputs = {
            "input_ids": filled([row["input_ids"] for row in rows], 0),
            "token_type_ids": filled([row["token_type_ids"] for row in rows], 0),
            "attention_mask": filled([[1] * len(row["input_ids"]) for row in rows], 0),
        }
        output = self.backbone(**inputs, use_cache=False)
        mask = inputs["attention_mask"].float()  # (n, t)
        padding = (mask == 0)[..., None]
        states = output.last_hidden_state.masked_fill(padding, 0.0)  # (n, t, d)
        return self.head(mask, states)


def filled(rows: Sequence[list[int]], filling: int) -> Tensor:
    """Rows of numbers, filled up on the right to the longest of them, (n, t)."""
    tensors = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=filling)


def cleaned(text: str) -> str:
    """A text in NFC, without control characters, cut to 20000 letters."""
    text = unicodedata.normalize("NFC", text[:20000])[:20000]
    kept = [one for one in text if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cs")]
    text = "".join(kept).strip()
    if not text:
        raise ValueError("A text is empty.")
    return text


def load(folder: str | Path = Path(__file__).parent) -> Classifier:
    """Brings the classifier into memory; the folder is the one of this file if not given."""
    return Classifier(Path(folder))
