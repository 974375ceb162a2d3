"""`?long=windows` over every pooling: short texts to the bit as without it, long ones whole."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import slow
import torch
from encoded_texts import last
from expected_errors import refusing
from quick_heads import classifiers
from tiny_models import WORDS
from tolerances import FORWARD, assert_same_forward
from torch import Tensor
from torch.testing import assert_close

from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States
from heads.classifier.inputs import HeadInputs
from heads.data.corpus import Corpus, build
from heads.errors import RecipeError
from heads.features.extraction import extract
from heads.features.featurizer import Featurizer
from heads.features.text_store import extract_by_text
from heads.interpret.comparison import token_notes
from heads.interpret.differences import difference, same_in_training
from heads.parts.pooled import pooled
from heads.parts.registry import pooling
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe

FIXED = [name for name, part in pooling.items() if not part.learned]
READINGS = [
    *FIXED,
    *("mean@1", "cls@cat4", "max@first_last", "gem?power=2.0", "flatten?length=60"),
    *("mean?normalise=true", "cls?normalise=true", "mean?prefix=it:_", "weighted?stride=0"),
    "mean?include_prefix=false&prefix=it:_",
]
BY_WINDOW = {"cls", "last", "eos", "mask_token", "pooler", "cls_mean"}
WORDY = random.Random(3)
SHORT = [" ".join(WORDY.choices(WORDS, k=WORDY.randint(1, 30))) for _ in range(12)]
LONG = [" ".join(WORDY.choices(WORDS, k=WORDY.randint(45, 130))) for _ in range(5)]
TEXTS = [text for pair in zip(SHORT, [*LONG, *LONG, *LONG], strict=False) for text in pair]
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


def of(reading: str, long: str = "windows") -> ResolvedRecipe:
    name, _, options = reading.partition("?")
    asked = "&".join(filter(None, (options, f"long={long}" if long == "windows" else "")))
    if long != "windows":
        asked = "&".join(one for one in asked.split("&") if not one.startswith("stride"))
    return resolve(f"{name}+linear" + f"?{asked}" * bool(asked))


def read(
    recipes: Sequence[ResolvedRecipe], backbone: Backbone, texts: Sequence[str] = TEXTS
) -> list[Tensor]:
    found = last(extract(recipes, texts, [], backbone))
    return [found.matrix(one.reading)[found.index] for one in recipes]


def naive(reading: str, backbone: Backbone, text: str) -> Tensor:
    """The vector of a long text by its definition: window by window, token by token."""
    resolved = of(reading)
    own, reader = backbone.for_recipe(resolved), Featurizer(resolved, backbone)
    (encoded,) = own.encode([text])
    alone = [own.states([replace(window, counted=())]) for window in encoded.windows]
    counted = [_counted(window) for window in encoded.windows]
    if reader.by_window:
        plain = Featurizer(of(reading.replace("?normalise=true", ""), "cut"), backbone)
        vectors = [plain(states).vectors[0] for states in alone]
        total = sum(map(len, counted))
        found = sum(len(own) / total * v for own, v in zip(counted, vectors, strict=True))
    else:
        tokens = [(states, at) for states, own in zip(alone, counted, strict=True) for at in own]
        found = pooled(*reader._answer(_one_text(tokens))).vectors[0]
    return found / found.norm() if resolved.normalise else found


def _counted(window: Encoded) -> list[int]:
    return [at for at, one in enumerate(window.counted) if one and at >= window.unread]


def _one_text(tokens: Sequence[tuple[States, int]]) -> States:
    """A text of these tokens, each as its window has it."""
    layers = range(len(tokens[0][0].hidden))
    ones = torch.ones(1, len(tokens))
    return States(
        mask=ones,
        unpadded=ones,
        content=torch.tensor([[float(states.content[0, at]) for states, at in tokens]]),
        eos=torch.tensor([[float(states.eos[0, at]) for states, at in tokens]]),
        hidden=tuple(torch.stack([s.hidden[n][0, at] for s, at in tokens])[None] for n in layers),
        pooler=None,
    )


@pytest.mark.parametrize("reading", READINGS)
def test_what_fits_is_read_as_without_it_and_what_does_not_as_defined(reading, small):
    (plain,) = read([of(reading, "cut")], small)
    (found,) = read([of(reading)], small)
    for row, text in enumerate(TEXTS):
        if text in SHORT and len(small.for_recipe(of(reading)).encode([text])[0].windows) == 0:
            assert_same_forward(found[row], plain[row])
    for text in LONG:
        row = TEXTS.index(text)
        assert_close(found[row], naive(reading, small, text), **CLOSE)
        if reading != "flatten":  # the first 32 tokens are in the first window
            assert not torch.allclose(found[row], plain[row], atol=1e-4)


def test_every_pooling_says_which_of_both_it_is(small):
    assert {n for n in FIXED if Featurizer(of(n), small).by_window} == BY_WINDOW
    assert "vectors are averaged" in " ".join(of("cls").says)
    assert "all their tokens are pooled" in " ".join(of("max").says)


def test_a_decoder_reads_window_by_window(tiny):
    backbone = loading.load(str(tiny("bart")))
    for reading in ("eos@decoder", "mean@decoder"):
        assert Featurizer(of(reading), backbone).by_window
        (found,) = read([of(reading)], backbone, [LONG[0], SHORT[0]])
        assert_close(found[0], naive(reading, backbone, LONG[0]), **CLOSE)


@pytest.mark.parametrize("family", slow.but(["gpt2", "deberta-v2", "xlnet"], "gpt2"))
def test_families_that_are_read_by_transformers(tiny, family):
    backbone = replace(loading.load(str(tiny(family))), tokens=40)
    readings = ("mean", "last", "max")
    for reading, vectors in zip(readings, read(list(map(of, readings)), backbone), strict=True):
        (plain,) = read([of(reading, "cut")], backbone)
        for text in (LONG[1], SHORT[0]):
            row = TEXTS.index(text)
            long = text in LONG
            assert torch.allclose(vectors[row], plain[row], **FORWARD) is not long
            if long:
                assert_close(vectors[row], naive(reading, backbone, text), **CLOSE)


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens the base model reads, a pass each."""
    found, forward = list[int](), Backbone.forward

    def count_tokens(self: Backbone, batch: Sequence, side: Any = "right") -> States:
        found.append(sum(map(len, batch)))
        return forward(self, batch, side)

    monkeypatch.setattr(Backbone, "forward", count_tokens)
    return found


def test_recipes_with_it_and_without_it_share_a_pass(small, tokens):
    cut, whole = [of(n, "cut") for n in ("mean", "cls")], [of(n) for n in ("mean", "max")]
    encoded = small.for_recipe(whole[0]).encode(list(dict.fromkeys(TEXTS)))
    of_cut = sum(map(len, encoded))
    rest = sum(sum(map(len, text.windows[1:])) for text in encoded)
    tried = 4 * small.tokens  # on a few texts a pass is tried first
    (alone,) = read([of("std", "cut")], small)
    assert of_cut <= sum(tokens) <= of_cut + tried
    tokens.clear()
    both = read([whole[0], *cut, whole[1], of("std", "cut")], small)
    assert of_cut + rest <= sum(tokens) <= of_cut + rest + tried
    assert_same_forward(both[-1], alone)
    tokens.clear()
    read([whole[0], *cut, of("sqrt_mean", "cut")], small)
    assert sum(tokens) <= of_cut + tried  # who cuts reads no windows, and the others are kept


def test_text_by_text_it_is_the_same_and_read_once(small, tokens):
    for name in ("max", "mean", "cls", "pooler"):
        found = last(extract_by_text([of(name)], TEXTS, [], small))
        (wanted,) = read([of(name)], small)
        assert_close(found.matrix(of(name).reading)[found.index], wanted, **CLOSE)
        assert found.fresh == (len(set(TEXTS)) if name == "max" else 0)
    cut = last(extract_by_text([of("mean", "cut")], TEXTS, [], small))
    assert cut.fresh == 0
    assert cut.whole.tolist() != cut.tokens.tolist()


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    labels = [("x", "y", "z")[row % 3] for row in range(len(TEXTS))]
    return build("made up", TEXTS, labels)


@pytest.mark.parametrize("recipe", slow.but(["mean+linear", "cls+mlp?hidden=4"], "mean+linear"))
def test_a_classifier_answers_from_the_same_vectors(recipe, small, corpus):
    asked = f"{recipe}{'&' if '?' in recipe else '?'}long=windows"
    one, cut = classifiers([asked, recipe], corpus, small)
    assert one.backbone.stride == 64
    (vectors,) = read([one.head.module.reader.resolved], small)
    assert_close(one.logits(TEXTS), one.head.module.head(vectors), **FORWARD)
    assert_close(one.kept_logits(TEXTS), one.logits(TEXTS), **FORWARD)
    given = HeadInputs(small, TEXTS[:4])
    assert_close(given.logits(one.head), one.logits(TEXTS[:4]), **FORWARD)
    assert_close(given.logits(cut.head), cut.logits(TEXTS[:4]), **FORWARD)
    assert len(one.predict(TEXTS)) == len(TEXTS)
    alone = HeadInputs(small, [LONG[0]])
    reads = alone.reads(one.head)
    words = [word for word, _ in reads]
    assert [word for word in words if word not in ("[CLS]", "[SEP]")] == LONG[0].split()
    assert sum(share for _, share in reads) == pytest.approx(1, abs=1e-5)


def test_two_texts_are_read_apart_each_in_its_windows(small):
    pairs = build("pairs", TEXTS, ["x", "y"] * (len(TEXTS) // 2), pairs=TEXTS[::-1])
    (one,) = classifiers(["mean+linear?long=windows&pair=uv_diff"], pairs, small)
    side = one.head.module.reader.resolved.side
    (u,), (v,) = read([side], small), read([side], small, TEXTS[::-1])
    wanted = one.head.module.head(one.head.module.reader.resolved.joined(u, v))
    assert_close(one.logits(TEXTS, TEXTS[::-1]), wanted, **CLOSE)
    given = HeadInputs(small, TEXTS[:3], TEXTS[::-1][:3])
    assert_close(given.logits(one.head), wanted[:3], **CLOSE)
    with refusing(RecipeError, "windows", "pair=uv_diff"):
        classifiers(["mean+linear?long=windows"], pairs, small)


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        ("attention+linear?long=windows", "all tokens"),
        ("mean@mix+linear?long=windows", "all tokens"),
        ("mean+linear?late=true&long=windows", "all tokens"),
        ("mean+linear?long=windows&tune=full", "cut"),
        ("mean+linear?long=logits", "windows"),
        ("mean+linear?long=true", "long"),
        ("mean+linear?stride=8", "windows"),
        ("mean+linear?long=windows&stride=-1", "0 to 4096"),
        ("mean+linear?long=windows&stride=1.5", "0 to 4096"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(recipe, says):
    with refusing(RecipeError, says):
        resolve(recipe)


def test_its_name_is_that_of_a_reading():
    one = resolve("mean + mlp ? stride=64 & long=windows & hidden=8")
    assert (str(one), one.reading, one.behind) == (
        "mean+mlp?hidden=8&long=windows", "mean?long=windows", "mlp?hidden=8",
    )  # fmt: skip
    assert str(resolve("mean+linear?long=cut")) == "mean+linear"


def test_what_sets_it_apart_is_how_long_texts_are_read(small):
    cut, whole = resolve("mean+linear"), resolve("mean+linear?long=windows&stride=8")
    assert not same_in_training(cut, whole, small)
    told = difference(cut, whole, small)
    assert "is read in windows which share 8 tokens, and all their tokens are pooled" in told
    prefixed = resolve("mean+linear?prefix=it:_")
    assert not same_in_training(cut, prefixed, small)
    assert "The prefix 'it: ' is written before every text" in difference(cut, prefixed, small)


def test_a_comparison_says_what_was_read(small, corpus):
    cut, whole = classifiers(["mean+ridge", "mean+ridge?long=windows"], corpus, small)
    (text,) = small.encode([" ".join(["cat"] * 98)])
    both = list(token_notes(text, [cut.head, whole.head], small))
    assert both == ["Only the first 40 of 100 tokens were read by recipes without ?long=windows."]
    assert not list(token_notes(text, [whole.head], small))
    (told,) = token_notes(text, [whole.head], replace(small, windows=2))
    assert told == "Only the first 59 of 100 tokens were read in windows, at most 2."
    (told,) = token_notes(text, [cut.head], small)
    assert told == "Only the first 40 of 100 tokens were read."
