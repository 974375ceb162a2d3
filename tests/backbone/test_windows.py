"""Long texts in windows: those that the tokenizer would cut, and each token of a text counted once.

What poolings make of them is held in tests/features/test_long_texts.py.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from expected_errors import refusing
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import WORDS

from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded
from heads.backbone.windows import windows_of
from heads.errors import RecipeError
from heads.parts.resolve import resolve
from heads.settings import Limits

LONG = " ".join(WORDS[(7 * n + n // 5) % len(WORDS)] for n in range(123))
MOST, STRIDE = 40, 11  # tokens of a window of a tiny model, and what two share here


def in_windows(backbone: Backbone, options: str = f"stride={STRIDE}") -> Backbone:
    return backbone.for_recipe(resolve(f"mean+linear?long=windows&{options}"))


def numbers(texts: Sequence[Encoded]) -> list[list[int]]:
    return [text.inputs["input_ids"] for text in texts]


@pytest.mark.parametrize("family", ["bert", "roberta", "xlnet", "gpt2", "t5"])
def test_they_are_what_the_tokenizer_cuts(tiny, family):
    backbone = replace(loading.load(str(tiny(family))), tokens=MOST)
    own = in_windows(backbone)
    (text,) = own.encode([LONG])
    theirs = own.tokenizer(
        LONG, truncation=True, max_length=MOST, stride=STRIDE, return_overflowing_tokens=True
    )
    assert len(text.windows) > 3
    assert numbers(text.windows) == theirs["input_ids"]
    if "token_type_ids" in text.inputs:
        segments = [window.inputs["token_type_ids"] for window in text.windows]
        assert segments == theirs["token_type_ids"]
    (cut,) = backbone.encode([LONG])
    assert (cut.inputs, cut.special, cut.windows) == (text.inputs, text.special, ())
    assert text.windows[0].inputs == cut.inputs


def test_a_text_that_fits_is_as_it_was(small):
    texts = ["the cat", " ".join(WORDS[:9] * 4)]
    assert in_windows(small).encode(texts) == small.encode(texts)
    exactly = " ".join(["cat"] * (small.tokens - 2))
    for text, windows in ((exactly, 0), (f"{exactly} cat", 2)):
        (found,) = in_windows(small).encode([text])
        assert (len(found), len(found.windows)) == (small.tokens, windows)


@given(
    words=st.integers(0, 90),
    most=st.integers(1, 24),
    stride=st.integers(0, 30),
    around=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    limit=st.integers(1, 200),
)
def test_each_token_counts_once(words, most, stride, around, limit):
    before, behind = around
    size = before + words + behind
    text = Encoded(
        inputs={"input_ids": list(range(size))},
        special=[1] * before + [0] * words + [1] * behind,
        whole_length=size,
    )
    found = windows_of(text, most, stride=stride, limit=limit)
    room = most - before - behind
    if not words or room < 1:
        return
    assert 1 <= len(found) <= limit
    counted = []
    for window in found:
        own, special = window.inputs["input_ids"], window.special
        assert len(own) == len(window.counted) == len(special) <= most
        content = own[before : len(own) - behind]
        assert own == [*range(before), *content, *range(before + words, size)]
        assert content == list(range(content[0], content[-1] + 1))
        assert all(
            one for one, is_special in zip(window.counted, special, strict=True) if is_special
        )
        told = zip(own, special, window.counted, strict=True)
        counted += [n for n, is_special, one in told if one and not is_special]
    reached = min(words, room + (limit - 1) * (room - min(stride, room // 2)))
    assert counted == list(range(before, before + reached))


def test_what_two_share_counts_where_more_of_the_text_stands_around_it():
    """BERT's run_squad.py: the window in which the smaller of the two contexts is larger."""
    text = Encoded(inputs={"input_ids": list(range(20))}, special=[0] * 20, whole_length=20)
    first, second, third = windows_of(text, 10, stride=5, limit=9)
    for left, right in ((first, second), (second, third)):
        own, other = left.inputs["input_ids"], right.inputs["input_ids"]
        for token in set(own) & set(other):
            at, there = own.index(token), other.index(token)
            context = min(at, len(own) - 1 - at), min(there, len(other) - 1 - there)
            assert (left.counted[at], right.counted[there]) == (
                (1, 0) if context[0] >= context[1] else (0, 1)
            )


def test_a_prefix_stands_before_each_and_a_prompt_behind_each(small):
    for words, reads in (("it:_", "true"), ("it:_", "false")):
        recipe = f"mean+linear?long=windows&prefix={words}&include_prefix={reads}"
        own = small.for_recipe(resolve(recipe))
        (text,) = own.encode([LONG])
        head = own.tokenizer("it: ")["input_ids"][:-1]
        assert len(text.windows) > 3
        for window in text.windows:
            assert window.inputs["input_ids"][: len(head)] == head
            assert window.unread == (0 if reads == "true" else len(head))
            assert len(window) <= small.tokens
    own = small.for_recipe(resolve("mask_token+linear?long=windows"))
    (text,) = own.encode([LONG])
    for window in text.windows:
        assert window.inputs["input_ids"].count(own.tokenizer.mask_token_id) == 1
        assert len(window) == len(window.counted) <= small.tokens
    words = [n for w in text.windows for n, one in zip(w.inputs["input_ids"], w.counted) if one]  # noqa: B905
    special = {*own.prompt, *own.tokenizer("")["input_ids"]}
    bare = [n for n in own.tokenizer(LONG)["input_ids"] if n not in special]
    assert [n for n in words if n not in special] == bare


@pytest.mark.slow
def test_a_text_of_a_million_characters_has_so_many_windows_and_no_more(small):
    own = in_windows(small)
    (text,) = own.encode(["cat dog " * 125_000])
    assert len(text.windows) == own.windows == Limits().windows
    kept = {rows[0]: states for rows, states in own.passes([text], layers=[-1])}
    assert kept[0].mask.shape == (own.windows, small.tokens)
    held = [layer.numel() for layer in kept[0].hidden]
    assert held == [0] * small.layers + [own.windows * small.tokens * small.width]


@pytest.mark.parametrize("recipe", ["mean", "mask_token", "mean&prefix=it:_"])
def test_how_far_they_reach(small, recipe):
    pooling, _, option = recipe.partition("&")
    resolved = resolve(f"{pooling}+linear?long=windows&stride={STRIDE}&{option}")
    own = replace(small, windows=3).for_recipe(resolved)
    for more in (0, 1):
        alone = len(own.encode(["cat"])[0]) - 1
        (text,) = own.encode([" ".join(["cat"] * (own.reach - alone + more))])
        read = sum(
            one
            for window in text.windows
            for number, one in zip(window.inputs["input_ids"], window.counted, strict=True)
            if number == own.tokenizer("cat")["input_ids"][1]
        )
        assert text.whole_length == own.reach + more
        assert read == own.reach - alone
    assert small.reach == small.tokens


def test_a_tokenizer_that_cuts_the_beginning_off(copied):
    folder = copied("bert")
    told = folder / "tokenizer_config.json"
    told.write_text(json.dumps(json.loads(told.read_text("utf-8")) | {"truncation_side": "left"}))
    backbone = loading.load(str(folder))
    own = in_windows(backbone)
    (text,), (cut,) = own.encode([LONG]), backbone.encode([LONG])
    assert text.inputs == cut.inputs != text.windows[0].inputs
    (first, second) = own.passes([text])
    torch.testing.assert_close(first[1].hidden[-1], backbone.states([cut]).hidden[-1])
    for number, window in enumerate(text.windows):
        alone = backbone.states([replace(window, counted=())])
        there = second[1].hidden[-1][number, : len(window)]
        torch.testing.assert_close(there, alone.hidden[-1][0], rtol=1e-5, atol=1e-5)


def test_windows_that_would_share_too_much_are_refused(small):
    with refusing(RecipeError, "40 tokens", "stride=20"):
        in_windows(small, "stride=21")
    assert in_windows(small, "stride=64").stride == 64  # the usual one, as far as it fits
