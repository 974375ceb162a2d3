"""sentence-transformers in a process of its own: what folders answer, and folders that it writes.

The question on standard input has `folders`, each with `path`, `texts` and `pairs` (or none), and
`write`, a folder for those that this library is to write, or "". The answer is one line of JSON.
"""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
import sys
from pathlib import Path
from typing import Any

import sentence_transformers
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

LABELS = ("bad", "fine", "good")


def answered(path: str, texts: list[str], pairs: list[str]) -> dict[str, Any]:
    """The logits of a folder, and how wide its sentence's vector is; or why it does not load."""
    try:
        if pairs:
            model = CrossEncoder(path, device="cpu", trust_remote_code=True)  # the code is ours
            both = list(zip(texts, pairs, strict=True))
            given = model.predict(both, activation_fn=torch.nn.Identity(), convert_to_tensor=True)
            return {"logits": given.reshape(len(texts), -1).tolist()}
        model = SentenceTransformer(path, device="cpu")
        # 5.4.0 takes no more at once: it looks for the fifth text in the word "text".
        found: Any = model.encode(texts, output_value=None, batch_size=4)
    except Exception as error:  # an older version refuses in many ways
        return {"error": f"{type(error).__name__}: {error}"}
    vectors: Any = model.encode(texts, batch_size=4)
    kept = all(
        torch.equal(one["sentence_embedding"], torch.as_tensor(vector))
        for one, vector in zip(found, vectors, strict=True)
    )
    assert kept
    return {"logits": [one["logits"].tolist() for one in found], "vectors": vectors.tolist()}


def written(place: Path, model: str, texts: list[str]) -> list[dict[str, Any]]:
    """Folders as others write them, with what they answer: a Dense to the labels behind a pooling.

    Args:
        model: The folder of a base model whose config has three labels.
    """
    torch.manual_seed(0)
    told = []
    for mode in ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"):
        base = Transformer(model)
        width = base.get_word_embedding_dimension()
        steps = [Normalize()] if mode == "mean" else []
        steps += [Dense(width, len(LABELS), activation_function=torch.nn.Identity())]
        whole = SentenceTransformer(modules=[base, Pooling(width, mode), *steps], device="cpu")
        whole.save(str(place / mode), create_model_card=False)
        logits = whole.encode(texts, convert_to_tensor=True).tolist()
        told.append({"path": str(place / mode), "texts": texts, "pairs": [], "logits": logits})
    for count in (1, len(LABELS)):
        whole = CrossEncoder(model, num_labels=count, device="cpu")
        both = [(text, texts[0]) for text in texts]
        given = whole.predict(both, activation_fn=torch.nn.Identity(), convert_to_tensor=True)
        whole.save_pretrained(str(place / f"pairs-{count}"))
        logits, pairs = given.reshape(len(texts), -1).tolist(), texts[:1] * len(texts)
        path = str(place / f"pairs-{count}")
        told.append({"path": path, "texts": texts, "pairs": pairs, "logits": logits})
    return told


def main() -> None:
    """Answers one question."""
    question = json.load(sys.stdin)
    found = [answered(**one) for one in question["folders"]]
    others: list[dict[str, Any]] = []
    if question["write"]:
        own = question["folders"][0]["texts"]
        others = written(Path(question["write"]), question["model"], own)
    version = sentence_transformers.__version__
    print(json.dumps({"version": version, "answers": found, "written": others}), flush=True)


if __name__ == "__main__":
    main()
