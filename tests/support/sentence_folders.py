"""Folders as sentence-transformers writes them, and what that library answers of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def write_sentences(
    folder: Path, base: Path, mode: object = "mean", steps: Sequence[nn.Module] = (), **facts: Any
) -> Path:
    """Write a base model, a pooling and more modules as a SentenceTransformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    model = Transformer(str(base))
    width = model.get_embedding_dimension()
    pooling = Pooling(width, mode, facts.pop("counts", True))  # type: ignore[arg-type]
    torch.manual_seed(0)
    whole = SentenceTransformer(modules=[model, pooling, *steps], device="cpu", **facts)
    whole.save(str(folder), create_model_card=False)
    return folder


def dense(taken: int, given: int, activation: nn.Module, **facts: Any) -> nn.Module:
    from sentence_transformers.models import Dense

    torch.manual_seed(taken + given)
    return Dense(taken, given, activation_function=activation, **facts)


def encoded(
    folder: Path, texts: Sequence[str], name: str = "sentence_embedding", **asked: Any
) -> Tensor:
    """What the library gives of texts under a name."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    found: Any = model.encode(list(texts), output_value=None, show_progress_bar=False, **asked)
    return torch.stack([one[name] for one in found])


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
