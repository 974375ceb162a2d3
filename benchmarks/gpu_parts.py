"""The parts of `benchmarks.gpu`, on one device: each writes what it found into a file of its own.

`benchmarks.gpu` starts it, for the processor's side with the GPU hidden. Dropout is 0, as devices
draw it in other ways; settings are given, as rounding may decide between two that are as good.
"""

import itertools
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import heads
from benchmarks import machine
from benchmarks.gpu import PARTS as TOLERANCES
from benchmarks.gpu import file_of
from heads.backbone.device import fastest, for_training
from heads.backbone.hub import bundled_folder
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices
from heads.parts.resolve import resolve

DATA = "intents"  # a sample
READINGS = ("mean", "cls", "max", "pooler", "std", "mean@3", "cls@cat4")
LINEAR = ("mean+linear", "mean+logistic?C=1", "mean+ridge", "mean+lda")
DENSE = ("mean+mlp?dropout=0", "cls+roberta?dropout=0")
ASKED = ("I was charged twice.", "Where is my parcel?", "Please cancel the order that I placed.")
TEXTS = {"cuda": 20_000, "cpu": 1_000}  # whose tokens are counted by the second
QUICK_TEXTS, BATCH = 64, 64
Found = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What all parts share: the device, the base model's folder, and one for what is made."""

    device: torch.device
    model: str
    folder: Path
    quick: bool

    @property
    def texts(self) -> Sequence[str]:
        """Those of a sample."""
        return heads.read(DATA, model=self.model).corpus.texts

    def train(self, recipe: str, **settings: Any) -> Classifier:
        """A head trained by the public function, on given settings and one seed."""
        usual: Found = {"trials": 1, "seeds": 1, "precision": "exact", "standardise": "no"}
        usual |= {"learning_rate": 1e-3, "steps": 100, "tuning_rate": 3e-5, "epochs": 1}
        config = heads.ExperimentConfig(**usual | settings)
        return heads.train(recipe, DATA, model=self.model, config=config)


def main() -> None:
    """Runs the parts that are named, one after the other; one that fails leaves the others."""
    asked = json.loads(sys.argv[1])
    device, place, model = torch.device(asked["device"]), Path(asked["place"]), Path(asked["model"])
    used = {fastest().type, for_training().type} - {"mps"}
    assert used == {device.type}, f"heads computes on {used}"
    if not model.is_dir():
        source = Path(asked["source"]) if asked["source"] else bundled_folder()
        write_model(source, model, "float32", 3 if asked["quick"] else 0)
    work = Work(device=device, model=str(model), folder=place, quick=asked["quick"])
    torch.ones(8, 8, device=device).sum().item()  # what starts only once does not count
    for name in asked["parts"]:
        signal.alarm(asked["longest"])  # which ends this process
        begun = time.perf_counter()
        try:
            found = PARTS[name](work)
        except ModuleNotFoundError as error:
            found = {"error": str(error), "left": True}
        except Exception as error:  # that is what the table tells
            found = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        found = {"seconds": time.perf_counter() - begun, "facts": machine.facts(), **found}
        draft = place / "draft"
        draft.write_text(json.dumps(found), "utf-8")
        draft.replace(file_of(place, name))


def write_model(source: Path, folder: Path, dtype: str, layers: int = 0) -> None:
    """Writes a base model without dropout; of its layers the first, or all if 0."""
    from transformers import AutoModel, AutoTokenizer

    own = {"num_hidden_layers": layers} if layers else {}
    own |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    draft = folder.with_suffix(".draft")
    AutoModel.from_pretrained(source, dtype=getattr(torch, dtype), **own).save_pretrained(draft)
    AutoTokenizer.from_pretrained(source).save_pretrained(draft)
    draft.rename(folder)


def read(work: Work, texts: Sequence[str], *readings: str, precision: str) -> FeatureMatrices:
    """Texts read in one pass; on the device, or it is an error."""
    recipes = [resolve(f"{name}+linear") for name in readings]
    *_, found = extract(recipes, texts, (), load(work.model), precision)
    assert isinstance(found, FeatureMatrices)
    if work.device.type == "cuda":
        assert found.engine == "Transformers on cuda", found.says
    return found


def encode(work: Work) -> Found:
    """All texts of a sample for several poolings and layers in one pass."""
    found = read(work, texts := work.texts, *READINGS, precision="exact")
    numbers = [found.matrix(name)[found.index[:20]] for name in READINGS]
    told = f"{len(texts)} texts. {found.says}"
    return {"numbers": torch.cat(numbers, dim=1).flatten().tolist(), "note": told}


def learn(*recipes: str, **settings: Any) -> Callable[[Work], Found]:
    """A part that trains heads and asks them."""

    def part(work: Work) -> Found:
        trained = [work.train(recipe, **settings) for recipe in recipes]
        logits = [one.logits(ASKED).log_softmax(dim=1) for one in trained]
        assert all(bool(one.isfinite().all()) for one in logits)
        return {"numbers": torch.cat(logits).flatten().tolist(), "note": ", ".join(recipes)}

    return part


def compare(work: Work) -> Found:
    """Several heads on one sentence."""
    recipes = ("mean+linear", "cls+logistic?C=1")
    found = heads.compare(ASKED[0], recipes=recipes, sample=DATA, model=work.model)
    numbers = [number for one in found.predictions for number in one.logits]
    return {"numbers": numbers, "note": f"{len(recipes)} heads on one sentence"}


def export(work: Work) -> Found:
    """Its numbers are how far the exported class on the device is from the head here."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    classifier = work.train("cls+bert?dropout=0")
    made = heads.export(classifier, work.folder / "exported", refit=False)
    model = AutoModelForSequenceClassification.from_pretrained(made.folder).to(work.device).eval()
    tokenizer = AutoTokenizer.from_pretrained(made.folder)
    given = tokenizer(list(ASKED), padding=True, return_tensors="pt").to(work.device)
    with torch.no_grad():
        gaps = model(**given).logits.cpu() - classifier.logits(ASKED)
    assert float(gaps.abs().max()) < 1e-3, f"its logits differ by {float(gaps.abs().max()):.0e}"
    return {"numbers": gaps.flatten().tolist(), "note": f"{made.called} on the device"}


def page(work: Work) -> Found:
    """One request, as Gradio's Python client sends it."""
    from gradio_client import Client

    from benchmarks.page import OURS, reached, served

    with served(OURS) as (url, _):
        reached(url)
        client, begun = Client(url, verbose=False), time.perf_counter()
        given = {"recipes": ["mean+linear"], "model": work.model, "sample": DATA}
        answer = client.predict(ASKED[0], api_name="/compare", **given)
        seconds = time.perf_counter() - begun
    numbers = [number for one in answer["recipes"] for number in one["logits"]]
    return {"numbers": numbers, "seconds": seconds, "note": "/compare, its head trained for it"}


def speed(precision: str) -> Callable[[Work], Found]:
    """A part that counts tokens per second, beside a plain loop of Transformers in that dtype."""

    def part(work: Work) -> Found:
        count = QUICK_TEXTS if work.quick else TEXTS[work.device.type]
        start = (precision == "fast") * (count + BATCH)  # other texts: none was read before
        both = itertools.permutations(work.texts, 2)
        every = [" ".join(two) for two in itertools.islice(both, start, start + count + BATCH)]
        read(work, every[:BATCH], "mean", precision=precision)
        begun, texts = time.perf_counter(), every[BATCH:]
        found = read(work, texts, "mean", precision=precision)
        seconds = time.perf_counter() - begun
        loop = plain_loop(work, getattr(torch, found.precision))
        loop(every[:BATCH])
        begun = time.perf_counter()
        cosine = torch.cosine_similarity(found.matrix("mean")[found.index], loop(texts)).min()
        plain = time.perf_counter() - begun
        assert float(cosine) > 0.99, f"a text's vector is another one (cosine {float(cosine):.4f})"
        tokens = sum(map(len, load(work.model).encode(texts)))
        rates = {"ours": tokens / seconds, "plain loop": tokens / plain}
        told = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
        return {"rates": rates, "seconds": seconds, "note": f"{told} ({found.precision})"}

    return part


def plain_loop(work: Work, dtype: torch.dtype) -> Callable[[Sequence[str]], Tensor]:
    """The mean of the last states, batch after batch, as anybody would write it."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work.model)
    model = AutoModel.from_pretrained(work.model, dtype=dtype).to(work.device).eval()

    @torch.inference_mode()
    def loop(texts: Sequence[str]) -> Tensor:
        found = list[Tensor]()
        for start in range(0, len(texts), BATCH):
            some = list(texts[start : start + BATCH])
            given = tokenizer(some, padding=True, return_tensors="pt").to(work.device)
            mask, states = given["attention_mask"][..., None], model(**given).last_hidden_state
            found.append(((states * mask).sum(dim=1) / mask.sum(dim=1)).float().cpu())
        return torch.cat(found)

    return loop


TUNED = [f"mean+linear?dropout=0&tune={way}" for way in ("last2", "lora", "full")]
WORKS: tuple[Callable[[Work], Found], ...] = (
    *(encode, learn(*LINEAR), learn(*DENSE), *(learn(recipe, per_class=12) for recipe in TUNED)),
    *(learn(TUNED[-1], per_class=12, precision="fast"), compare, export, page),
    *(speed("exact"), speed("fast")),
)
PARTS = dict(zip(TOLERANCES, WORKS, strict=True))

if __name__ == "__main__":
    main()
