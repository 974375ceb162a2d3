"""A folder works without this package, gives the same logits, and is whole or not there at all."""

import copy
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from quick_heads import classifiers
from safetensors.torch import load_file, save_file
from tiny_models import LIMITS, WORDS, save_tiny, small_tokenizer

import heads
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.backbone.weights import bare
from heads.catalog import tiny_models
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, build, in_order, numbered
from heads.errors import CheckpointError, RecipeError
from heads.exporters import portable
from heads.exporters.export import export
from heads.exporters.model_card import model_card, plain
from heads.exporters.portable import write_portable
from heads.exporters.verification import rounding_gain
from heads.parts.resolve import head, layers, pairing, pooling, resolve
from heads.problem import MULTI_LABEL

WHY = "No class of Transformers reads a text like that."
TEXTS = [" ".join(WORDS[start : start + length]) for start in range(6) for length in (1, 3, 8)]
SECOND = TEXTS[5:] + TEXTS[:5]


def trained(recipe: str, corpus: Corpus, backbone: Backbone) -> Classifier:
    if resolve(recipe).head.ordered:
        corpus = in_order(corpus, corpus.classes)
    return classifiers([recipe], corpus, backbone)[0]


def loaded(folder: Path) -> Any:
    """What `load()` of the folder's own page gives."""
    return runpy.run_path(str(folder / "load.py"))["load"](folder)


def is_same(theirs: torch.Tensor, ours: torch.Tensor) -> bool:
    """Whether logits are the same, to rounding: we read without padding, Transformers does not."""
    return torch.allclose(theirs, ours, atol=2e-6, rtol=2e-6)


def check(classifier: Classifier, folder: Path) -> dict[str, Any]:
    """Writes it and compares its logits with ours; gives back what its head.json says."""
    write_portable(classifier, folder, why=WHY)
    theirs = loaded(folder)
    for pairs in ((), SECOND):
        ours = classifier.logits(TEXTS, pairs)
        assert float(ours.std(dim=0).max()) > 1e-6, "every text got the same logits"
        assert is_same(theirs.logits(TEXTS, pairs), ours)
    return json.loads((folder / "head.json").read_text("utf-8"))


def package(folder: Path) -> Path:
    """The copied files in a folder."""
    [found] = folder.glob("heads_*")
    return found


@pytest.fixture(scope="module")
def fine(small: Backbone, rows: Corpus) -> Classifier:
    return trained("mean+linear", rows, small)


RECIPES = [
    *(f"{name}+{'bert' if name in ('cls', 'last') else 'linear'}" for name in pooling),
    *(f"mean+{name}" for name in head),
    *("mean@cat4+mlp", "cls@mean4+bert", "max@max4+ridge", "attention@mix+linear?queries=3"),
    *("mean@0+linear", "mean@1+knn?k=3", "flatten+linear?length=3", "mean_content@mix+gpt2"),
    *("mean+eurobert?late=true", "attention+mlp?late=true", "mean@cat4+linear?late=true"),
    "cls+electra?activation=gelu_new",
]


@pytest.mark.parametrize("recipe", slow.but(RECIPES, *RECIPES[::5], *RECIPES[-4:]))
def test_every_pooling_and_every_head_is_the_same_function(recipe, rows, small, tmp_path):
    check(trained(recipe, rows, small), tmp_path / "mine")


def test_the_files_are_ours_but_for_the_name_of_the_package(fine, tmp_path):
    write_portable(fine, tmp_path / "mine", why=WHY)
    copies, house = package(tmp_path / "mine"), Path(heads.__file__).parent
    files = sorted(path.relative_to(copies) for path in copies.rglob("*.py"))
    assert {Path("parts", f"{name}.py") for name in ("poolings", "heads", "layers")} <= {*files}
    assert {path.name for path in copies.parent.iterdir()} == {
        *("README.md", "backbone", "head.json", "head.safetensors", "load.py", copies.name)
    }
    for name in files:
        ours = (house / name).read_text("utf-8").splitlines()
        theirs = (copies / name).read_text("utf-8").splitlines()
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert other.replace(copies.name, "heads", 1) == one
            assert not re.match(r"\s*(import|from) heads\b", other)
    assert max(map(len, (tmp_path / "mine" / "load.py").read_text("utf-8").splitlines())) <= 100


def test_two_folders_stand_beside_each_other(fine, takes, rows, small, tmp_path):
    takes(OWN)
    other = trained("early+careful", rows, small)
    for name, classifier in (("one", fine), ("two", other)):
        write_portable(classifier, tmp_path / name, why=WHY)
    assert package(tmp_path / "one").name != package(tmp_path / "two").name
    one, two = loaded(tmp_path / "one"), loaded(tmp_path / "two")
    assert is_same(one.logits(TEXTS), fine.logits(TEXTS))
    assert is_same(two.logits(TEXTS), other.logits(TEXTS))


FAMILIES = {
    "roberta": ("cls+roberta", "mean_content@mix+linear"),
    "distilbert": ("cls+distilbert",),
    "gpt2": ("last+gpt2", "eos+mlp"),
    "xlnet": ("last+xlnet",),
    "deberta-v2": ("cls+deberta",),
    "modernbert": ("mean+modernbert",),
    "electra": ("cls+electra",),
    "bart": ("eos@decoder+roberta", "mean@1+linear"),
    "t5": ("eos@decoder+roberta", "mean@mix+linear"),
}


@pytest.mark.parametrize("family", slow.but(FAMILIES, "gpt2", "bart"))
def test_families_are_read_as_we_read_them(family, rows, tiny, tmp_path):
    backbone = load(str(tiny(family)), limits=LIMITS)
    for number, recipe in enumerate(FAMILIES[family]):
        check(trained(recipe, rows, backbone), tmp_path / str(number))


QUIRKS = {
    "longformer": ("cls+roberta", "base", "class", "AutoModel"),
    "funnel": ("mean+linear", "base", "class", "FunnelBaseModel"),
    "fnet": ("mean+linear", "backbone", "reads_padding", True),
    "t5gemma": ("last@decoder+linear", "backbone", "shifted", True),
    "nomic_bert": ("cls+bert", "base", "arguments", {"add_pooling_layer": True}),
}


@pytest.mark.parametrize("family", slow.but(QUIRKS, "longformer", "fnet"))
def test_what_a_family_needs_besides_goes_along(family, tmp_path):
    recipe, room, name, value = QUIRKS[family]
    with tiny_models.quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        bare(tiny_models.tiny_config(family)).save_pretrained(tmp_path / "base")
    small_tokenizer("around").save_pretrained(tmp_path / "base")
    backbone = load(str(tmp_path / "base"), limits=LIMITS)
    texts = [text for text in TEXTS if len(text.split()) > 2] * 3  # Funnel reads no single word
    corpus = build("made up", texts, [("x", "y")[row % 2] for row in range(len(texts))])
    classifier = trained(recipe, corpus, backbone)
    write_portable(classifier, tmp_path / "mine", why=WHY)
    facts = json.loads((tmp_path / "mine" / "head.json").read_text("utf-8"))
    assert facts[room][name] == value
    ours = classifier.logits(texts)
    assert (loaded(tmp_path / "mine").logits(texts) - ours).abs().max() <= 1e-6
    assert float(ours.std(dim=0).max()) > 1e-6


def test_an_encoder_whose_decoder_is_missing_is_written_alone(rows, tmp_path):
    folder = save_tiny(tmp_path / "t5", "t5")
    tensors = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("decoder.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    backbone = load(str(folder), limits=LIMITS)
    assert not backbone.decoder_width
    facts = check(trained("mean+linear", rows, backbone), tmp_path / "mine")
    assert facts["base"]["class"] == "T5Stack"


def test_what_looks_like_a_special_token_stays_text(rows, small, tmp_path):
    cat = small.tokenizer.convert_tokens_to_ids("cat")
    backbone = replace(small, stubborn=frozenset({cat}))
    for number, recipe in enumerate(("mean+linear", "mean_content+linear")):
        classifier = trained(recipe, rows, backbone)
        check(classifier, tmp_path / str(number))
        seen = classifier.logits(["the cat sat"])
        assert is_same(loaded(tmp_path / str(number)).logits(["the cat sat"]), seen)
        usual = Classifier(backbone=small, head=classifier.head).logits(["the cat sat"])
        assert not is_same(usual, seen)


def test_what_a_class_takes_for_padding_is_not_read(rows, tiny, tmp_path):
    gpt2 = load(str(tiny("gpt2")), limits=LIMITS)
    home = gpt2.tokenizer.convert_tokens_to_ids("home")
    backbone = replace(gpt2, skipped=home)
    classifier = trained("last+gpt2", rows, backbone)
    check(classifier, tmp_path / "mine")
    ending = ["the cat ran home home"]
    usual = Classifier(backbone=gpt2, head=classifier.head).logits(ending)
    assert not torch.equal(classifier.logits(ending), usual)
    assert torch.equal(loaded(tmp_path / "mine").logits(ending), classifier.logits(ending))


PROMPTS = {"query": "the cat: ", "ask_it": "it was\ta = b & c "}


@pytest.mark.parametrize("as_trained", [True, False], ids=["with modules", "without"])
def test_a_prompt_of_the_base_model_goes_along(rows, copied, tmp_path, as_trained):
    base = copied()
    (base / "config_sentence_transformers.json").write_text(json.dumps({"prompts": PROMPTS}))
    if not as_trained:
        (base / "modules.json").unlink()
    backbone = load(str(base), limits=LIMITS)
    assert (backbone.trained is not None) is as_trained
    for number, recipe in enumerate(
        ("mean+logistic?prefix=query", "cls+ridge?alpha=300&prefix=ask_it")
    ):
        ours = trained(recipe, rows, backbone)
        assert ours.backbone.prefix in PROMPTS.values()
        folder = export(ours, tmp_path / str(number)).folder
        assert is_same(loaded(folder).logits(TEXTS), ours.logits(TEXTS))
        opened = heads.load(folder, limits=LIMITS)
        assert opened.backbone.prefix == ours.backbone.prefix
        written = plain(json.dumps(ours.backbone.prefix))
        assert f"its loader writes {written}." in (folder / "README.md").read_text("utf-8")
        assert torch.equal(opened.logits(TEXTS), ours.logits(TEXTS))
        with pytest.raises(RecipeError, match="ONNX does not hold"):
            heads.export_onnx(ours, tmp_path / "mine.onnx")
        with pytest.raises(RecipeError, match="No class of Transformers writes"):
            export(ours, tmp_path / "native", library="transformers")


def test_two_texts_without_a_separator_are_joined_by_a_line_break(rows, small, tmp_path):
    check(trained("mean+linear", rows, replace(small, separates=False)), tmp_path / "mine")


def test_labels_come_with_their_probabilities(fine, small, tmp_path):
    write_portable(fine, tmp_path / "one", why=WHY)
    told = loaded(tmp_path / "one")(TEXTS)
    assert [row["label"] for row in told] == fine.predict(TEXTS)
    assert [row["score"] for row in told] == pytest.approx(
        fine.probabilities(TEXTS).amax(dim=1).tolist()
    )
    labels = [("", "a", "b", "a|b")[row % len(TEXTS) % 4] for row in range(len(TEXTS) * 2)]
    many = trained("mean+logistic", build("many", TEXTS * 2, labels), small)
    write_portable(many, tmp_path / "many", why=WHY)
    told = loaded(tmp_path / "many")(TEXTS)
    chosen = MULTI_LABEL.chosen(many.logits(TEXTS))
    assert [tuple(one["label"] for one in row) for row in told] == many.predict(TEXTS)
    assert 0 < int(chosen.sum()) < chosen.numel()


PAIRED = build("pairs", TEXTS * 2, [("x", "y")[row % 2] for row in range(36)], SECOND * 2)


@pytest.mark.parametrize(
    "recipe",
    slow.but_each(
        3,
        [
            *(f"mean+linear?pair={name}" for name in pairing),
            *("mean_max@cat4+mlp?pair=uv_diff", "cls+bert?pair=diff", "std+linear?pair=uv"),
            *("mean_content@mean4+ridge?pair=prod", "max+knn?pair=diff_prod"),
            "pooler+linear?pair=uv",
        ],
    ),
)
def test_two_texts_are_read_apart_as_we_read_them(recipe, small, tmp_path):
    ours = trained(recipe, PAIRED, small)
    # 1.4e-06 on some processors
    assert write_portable(ours, tmp_path / "mine", why=WHY) <= 5e-6 * rounding_gain(ours)
    classify = loaded(tmp_path / "mine")
    wanted = ours.logits(TEXTS, SECOND)
    assert float(wanted.std(dim=0).max()) > 1e-6, "every pair got the same logits"
    assert (classify.logits(TEXTS, SECOND) - wanted).abs().max() <= 1e-6
    assert [one["label"] for one in classify(TEXTS, SECOND)] == ours.predict(TEXTS, SECOND)
    card = (tmp_path / "mine" / "README.md").read_text("utf-8")
    assert 'classify(["a text"], ["a second text"])' in card


def test_a_loader_of_pairs_demands_them(small, tmp_path):
    write_portable(trained("mean+linear?pair=uv_diff", PAIRED, small), tmp_path / "m", why=WHY)
    classify = loaded(tmp_path / "m")
    assert classify([], []) == classify([]) == []
    assert classify.logits([]).shape == (0, 2)
    for texts, pairs, sentence in (
        (["a"], (), "compares two texts: give one second text for each"),
        (["a", "b"], ["c"], "compares two texts"),
        ("a text", ["b"], "must be a list"),
        (["a"], "b", "must be a list"),
        (["a"], [" "], "A text is empty"),
    ):
        with pytest.raises(ValueError, match=sentence):
            classify(texts, pairs)


@pytest.mark.parametrize("recipe", ["mean+linear?loss=ovr", "mean+logistic?loss=ovr"])
def test_a_vote_is_a_vote(recipe, rows, small, tmp_path):
    ours = trained(recipe, rows, small)
    write_portable(ours, tmp_path / "mine", why=WHY)
    told = loaded(tmp_path / "mine")(TEXTS)
    shares = ours.logits(TEXTS).sigmoid()
    votes = shares / shares.sum(dim=1, keepdim=True)
    assert [one["score"] for one in told] == pytest.approx(votes.amax(dim=1).tolist(), abs=1e-6)
    assert [one["label"] for one in told] == ours.predict(TEXTS)
    assert "put to a vote" in (tmp_path / "mine" / "README.md").read_text("utf-8")


@pytest.mark.parametrize("recipe", ["mean+linear", "mean+ridge", "mean+linear?pair=diff_prod"])
def test_a_number_is_given_as_it_is(recipe, small, tmp_path):
    scale = numbered("scale", TEXTS * 2, [row % 5 - 1.5 for row in range(36)], SECOND * 2, "stars")
    ours = trained(recipe, scale, small)
    write_portable(ours, tmp_path / "mine", why=WHY)
    told = loaded(tmp_path / "mine")(TEXTS, SECOND)
    wanted = ours.logits(TEXTS, SECOND)[:, 0].tolist()
    assert [one["score"] for one in told] == pytest.approx(wanted, abs=1e-6)
    assert {one["label"] for one in told} == {"stars"}
    assert "Texts in, numbers out" in (tmp_path / "mine" / "load.py").read_text("utf-8")


def test_labels_are_given_above_their_thresholds(small, tmp_path):
    labels = [("", "a", "b", "a|b")[row % 4] for row in range(36)]
    ours = trained("mean+linear", build("many", TEXTS * 2, labels), small)
    middle = tuple(ours.logits(TEXTS).median(dim=0).values.tolist())
    tuned = Classifier(backbone=small, head=replace(ours.head, thresholds=middle))
    assert tuned.predict(TEXTS) != ours.predict(TEXTS)
    write_portable(tuned, tmp_path / "mine", why=WHY)
    told = loaded(tmp_path / "mine")(TEXTS)
    assert [tuple(one["label"] for one in row) for row in told] == tuned.predict(TEXTS)


def test_the_loader_refuses_what_we_refuse(fine, tmp_path):
    write_portable(fine, tmp_path / "mine", why=WHY)
    classify = loaded(tmp_path / "mine")
    assert classify([]) == []
    assert classify.logits([]).shape == (0, 3)
    raw = ["  cafe\u0301 \x07"]
    assert is_same(classify.logits(raw), fine.logits(raw))
    assert not is_same(classify.logits(raw), fine.logits(["café"]))
    for texts, pairs, sentence in (
        ("a text", (), "must be a list"),
        ([" \x07 "], (), "A text is empty"),
        (["a", "b"], ["c"], "one second text for each"),
    ):
        with pytest.raises(ValueError, match=sentence):
            classify(texts, pairs)


ALONE = """
import json, sys

class NoHeads:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "heads":
            raise ImportError("this package is not here")

sys.meta_path.insert(0, NoHeads())
sys.path.insert(0, sys.argv[1])
from load import load

classify = load()
texts = json.loads(sys.argv[2])
print(json.dumps([classify.logits(texts).tolist(), classify(texts)]))
assert not any(name.split(".")[0] == "heads" for name in sys.modules)
"""


@pytest.mark.slow
def test_the_bundled_model_runs_in_a_process_of_its_own(backbone, tmp_path):
    texts = [
        "Not bad at all.",
        "I want my money back",
        "yes",
        "Ça va? [SEP] 😀",
        "It rained. " * 90,
    ]
    corpus = build("made up", texts * 8, ["good", "bad", "good", "other", "bad"] * 8)
    classifier = trained("mean_max@cat4+linear", corpus, backbone)
    write_portable(classifier, tmp_path / "mine", why=WHY)
    found = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", ALONE, tmp_path / "mine", json.dumps(texts)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    logits, told = json.loads(found.stdout)
    ours = classifier.logits(texts)
    assert (torch.tensor(logits) - ours).abs().max() <= 1e-6
    assert [one["label"] for one in told] == classifier.predict(texts)


OWN = '''
from __future__ import annotations

import math
from typing import Sequence

import torch.nn as nn
from torch import Tensor
from heads.parts.modules import Scale as Times

import heads

FLOOR = 1e-6
NAMES = {"gentle": (0.5, FLOOR)}


def _shares(mask: Tensor, power: float) -> Tensor:
    """More for what comes early."""
    raised = mask / mask.cumsum(dim=1).clamp(min=NAMES["gentle"][1]) ** power
    return raised / raised.sum(dim=1, keepdim=True)


@heads.pooling
def early(mask: Tensor, states: Tensor, *, power: float = 1.0) -> heads.Pooled:
    """What comes early counts more."""
    weights = _shares(mask, power)  # (n, t)
    return heads.Pooled((weights[:, None] @ states).squeeze(1) * math.sqrt(2), weights)


@heads.pooling
class gated(nn.Module):
    """A learned gate decides."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 1)

    def forward(self, mask: Tensor, states: Tensor) -> Tensor:
        return mask * self.gate(states).squeeze(-1).sigmoid()


class Cut(nn.Module):
    """Cuts off what is large."""

    def __init__(self, most: float, *, twice: bool = False) -> None:
        super().__init__()
        self.most, self.twice = most, twice

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors.clamp(-self.most, self.most) * (2 if self.twice else 1)


@heads.head
def careful(width: int, classes: int, *, most: float = 3.0) -> nn.Sequential:
    """Cuts, then a linear layer."""
    return heads.chain(
        ("cut.first", Cut(most, twice=True)),
        ("cut.norm", nn.BatchNorm1d(width)),
        ("scale", Times(0.5)),
        ("classifier", nn.Linear(width, classes)),
    )
'''


@pytest.fixture
def shelves() -> Iterator[None]:
    """Whatever a test puts onto the shelves is taken off again."""
    before = [dict(shelf._parts) for shelf in (pooling, layers, head)]
    yield
    for shelf, parts in zip((pooling, layers, head), before, strict=True):
        shelf._parts.clear()
        shelf._parts.update(parts)


@pytest.fixture
def takes(shelves: None, tmp_path: Path) -> Callable[[str], None]:
    """Runs parts of a user's own, as `--with` does."""

    def take(text: str) -> None:
        (tmp_path / "own.py").write_text(text, "utf-8")
        runpy.run_path(str(tmp_path / "own.py"))

    return take


@pytest.mark.parametrize("recipe", ["early+careful?most=1.5&power=0.5", "gated+careful"])
def test_parts_of_ones_own_go_along(recipe, takes, rows, small, tmp_path):
    takes(OWN)
    check(trained(recipe, rows, small), tmp_path / "mine")
    copies = package(tmp_path / "mine")
    own = (copies / "own_1.py").read_text("utf-8")
    assert own.replace(f"{copies.name} as heads", "heads").replace(copies.name, "heads") == OWN


def test_a_docstring_that_is_no_plain_text_stays_one(takes, rows, small, tmp_path):
    takes(
        "import heads\n\n\n@heads.pooling\ndef slanted(mask, states):\n"
        "    r'''Even, as in \\N, of \"\"\"all\"\"\" tokens.'''\n"
        "    return mask / mask.sum(dim=1, keepdim=True)\n"
    )
    check(trained("slanted+linear", rows, small), tmp_path / "mine")


ODD = '''
import torch
from torch import nn
import heads as h
from heads import chain

HELD, ALSO = torch.ones(2)

@h.pooling
def load(mask, states):
    """Even."""
    return mask / mask.sum(dim=1, keepdim=True)

@h.pooling
def mine(mask, states):
    """Even."""
    from heads.parts.poolings import mean
    return mean(mask, states) * HELD

class Shut(nn.Module):
    def __init__(self, amount):
        super().__init__()

    def forward(self, vectors):
        return vectors

@h.head
def silent(width, classes):
    """Says nothing."""
    return chain(("shut", Shut(2)), ("out", nn.Linear(width, classes)))
'''


@pytest.mark.parametrize("recipe", ["load+linear", "mine+silent"])
def test_a_file_of_ones_own_goes_along_whole(recipe, takes, rows, small, tmp_path):
    takes(ODD)
    check(trained(recipe, rows, small), tmp_path / "mine")


EVEN = '''

@heads.pooling
def mine(mask, states):
    """Even."""
    return mask / mask.sum(dim=1, keepdim=True)
'''
REFUSED = {
    "import heads\nimport quick_heads": (
        RecipeError,
        "imports quick_heads, which does not go along",
    ),
    "import json, heads": (RecipeError, "imports heads, which does not go along"),
    "import heads\nheads.examine": (
        CheckpointError,
        "does not load (ModuleNotFoundError: No module",
    ),
}


@pytest.mark.parametrize("start", REFUSED)
def test_what_cannot_go_along_is_said_in_one_sentence(start, takes, rows, small, tmp_path):
    takes(start + EVEN)
    kind, sentence = REFUSED[start]
    classifier = trained("mine+linear", rows, small)
    with pytest.raises(kind) as error:
        export(classifier, tmp_path / "mine")
    assert sentence in str(error.value)
    assert os.listdir(tmp_path) == ["own.py"]  # noqa: PTH208


def test_a_part_made_within_a_function_is_refused(shelves, rows, small, tmp_path):
    @heads.pooling
    def inner(mask: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Even."""
        return mask / mask.sum(dim=1, keepdim=True)

    classifier = trained("inner+linear", rows, small)
    with pytest.raises(RecipeError, match="inner is made within a function"):
        write_portable(classifier, tmp_path / "mine", why=WHY)


POOLINGS, STANDALONE = "parts/poolings.py", "exporters/standalone.py"


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "sentence"),
    [
        (
            POOLINGS,
            "mask / mask.sum(",
            "mask / mask.add(0.001).sum(",
            "gives logits that differ by",
        ),
        (STANDALONE, "(read.vectors.clone())", "(read.vectors) * torch.nan", "differ by nan"),
        (STANDALONE, "self.head(read", "self.heads(read", "no attribute 'heads'"),
        (STANDALONE, "AutoTokenizer.from", "AutoTokenizer.of", "does not load"),
        (STANDALONE, "return found", "return found[:1]", "does not run"),
    ],
)
def test_a_folder_that_answers_otherwise_is_not_kept(
    name, ours, theirs, sentence, fine, tmp_path, monkeypatch
):
    package, files = portable.sources(fine.head.module.reader.resolved)
    assert ours in files[name]
    spoilt = files | {name: files[name].replace(ours, theirs)}
    monkeypatch.setattr(portable, "sources", lambda _: (package, spoilt))
    before = sys.modules.get(package)
    with pytest.raises(CheckpointError, match=sentence):
        export(fine, tmp_path / "mine")
    assert not any(tmp_path.iterdir())
    assert sys.modules.get(package) is before


def test_nothing_foreign_goes_along(fine, small, tmp_path):
    tokenizer = copy.deepcopy(small.tokenizer)
    tokenizer.chat_template = "{{ evil() }}"
    tokenizer("long " * 50, truncation=True, max_length=5, padding="max_length")
    config = copy.deepcopy(small.model.config)
    model = copy.copy(small.model)
    model.config = config
    config.auto_map = {"AutoModel": "evil.Model"}
    backbone = replace(small, tokenizer=tokenizer, model=model)
    before = dict(vars(config))
    write_portable(Classifier(backbone=backbone, head=fine.head), tmp_path / "mine", why=WHY)
    assert dict(vars(config)) == before
    assert tokenizer.chat_template == "{{ evil() }}"
    base = tmp_path / "mine" / "backbone"
    for path in (tmp_path / "mine").rglob("*"):
        raw = path.read_bytes() if path.is_file() else b""
        assert b"evil" not in raw, path
        assert str(small.folder).encode() not in raw, path
        assert str(tmp_path).encode() not in raw, path
    cut = json.loads((base / "tokenizer.json").read_text("utf-8"))
    assert (cut["truncation"], cut["padding"]) == (None, None)


def test_the_base_model_stays_as_it_was(fine, small, tmp_path):
    attention, before = small.model.config._attn_implementation, fine.logits(TEXTS)
    write_portable(fine, tmp_path / "mine", why=WHY)
    assert small.model.config._attn_implementation == attention
    assert torch.equal(fine.logits(TEXTS), before)


def test_head_json_says_what_it_is(fine, tmp_path):
    write_portable(fine, tmp_path / "mine", why=WHY)
    facts = json.loads((tmp_path / "mine" / "head.json").read_text("utf-8"))
    assert (facts["recipe"], facts["classes"], facts["problem_type"]) == (
        "mean+linear",
        ["x", "y", "z"],
        "single_label_classification",
    )
    assert facts["layers"] == {"classifier": "linear layer"}  # no dropout was ever applied
    assert facts["formula"][-1] == "logits = W h + b"
    assert facts["scores"]["rows"] == 12
    assert facts["versions"]["torch"] == version("torch")


HOSTILE = "<script>alert(1)</script>\n---\nlicense: mit\n# `|*[x](http://evil)"


def front_matter(card: str) -> dict[str, str]:
    start, matter, _ = card.split("---\n", 2)
    assert start == ""
    return dict(line.split(": ", 1) for line in matter.splitlines() if ": " in line)


def test_the_card_shows_names_as_text(fine, small):
    own = replace(fine.head, classes=(HOSTILE, "b", "c"), trained_on=HOSTILE)
    backbone = replace(small, id=HOSTILE)
    card = model_card(Classifier(backbone=backbone, head=own), "load()", ["A note."])
    assert front_matter(card) == {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
    }
    assert "<script>" not in card.replace("\\<script\\>", "")
    assert not any(line.startswith(("license", "# `|")) for line in card.splitlines())
    assert card.count("\n# ") == 1
    assert "- A note." in card
    assert plain("a" * 900).endswith("…")


def test_the_card_says_how_well_it_does_and_on_what(fine, small, backbone):
    scores = fine.head.scores
    assert scores
    card = model_card(fine, "load()", [])
    assert f"{scores.accuracy:.1%}" in card
    assert f"95 % interval {scores.low:.1%} to {scores.high:.1%}" in card
    assert f"the commonest answer: {scores.majority:.1%}" in card
    assert "made up, 48 rows" in card
    assert "3 classes, one of which applies: x, y, z." in card
    assert "logits = W h + b" in card
    assert f"The first {small.tokens} tokens of a text are read" in card
    own = replace(fine.head, scores=None, training=None, trained_on="org/name", rows=0)
    card = model_card(Classifier(backbone=small, head=own), "load()", [])
    assert "Nobody has scored it here" in card
    assert "%" not in card
    assert "frozen" not in card
    card = model_card(Classifier(backbone=backbone, head=fine.head), "load()", [], library="x")
    assert front_matter(card)["base_model"] == '"sentence-transformers/all-MiniLM-L6-v2"'
    assert front_matter(card)["library_name"] == "x"
    many = replace(fine.head, classes=tuple(f"c{n}" for n in range(99)))
    assert "c49, and 49 more." in model_card(Classifier(backbone=small, head=many), "load()", [])


def test_a_card_says_how_much_of_a_text_is_read(fine, small, rows):
    told = "The first {:,} tokens of a text are read{}, and none after them."
    assert told.format(40, "") in model_card(fine, "load()", [])
    windows = trained("mean+logistic?long=windows&stride=8", rows, small)
    own = told.format(windows.backbone.reach, ", in windows of 40")
    assert windows.backbone.reach > 40
    assert own in model_card(windows, "load()", [])


def test_a_base_model_of_the_hub_is_named_and_a_folder_is_not(fine, small):
    def base(id: str, revision: str) -> str | None:
        backbone = replace(small, id=id, revision=revision)
        card = model_card(Classifier(backbone=backbone, head=fine.head), "load()", [])
        assert "/home" not in card
        return front_matter(card).get("base_model")

    assert base("org/name", "0" * 40) == '"org/name"'
    assert base("org/name", "local-0123456789ab") is None
    assert base("/home/me/org/name", "local-0123456789ab") is None
