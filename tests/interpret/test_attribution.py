"""Attributions: they add up, they are what captum computes, they are those of the ordinary path."""

import threading
from copy import copy
from dataclasses import replace

import pytest
import slow
import torch
from quick_heads import classifiers

from heads.backbone import loading
from heads.errors import DataError, ModelError
from heads.interpret.attribution import attributions
from heads.interpret.integrated_gradients import (
    ExplainedLogits,
    _looked_up,
    embedding_gradients,
    input_embeddings,
    integrated,
)
from heads.problem import MULTI_LABEL

TEXT = "I expected more, but the ending won me over."
RECIPES = (
    "cls+roberta", "attention+linear", "mean@mix+modernbert", "max+distilbert",
    "flatten+mlp?length=8", "mean+knn",
)  # fmt: skip


@pytest.fixture(scope="module")
def heads(backbone, rows):
    return classifiers(RECIPES, rows, backbone)


def test_scores_add_up_to_the_change_of_the_logit(heads):
    found = attributions(heads, TEXT)
    assert [one.name for one in found] == [one.head.name for one in heads]
    for one, head in zip(found[:-1], heads, strict=False):
        assert one.is_complete, one.name
        total = sum(token.score for token in one.tokens)
        change = one.value - one.value_on_blanks
        scale = one.span if one.measured_on == "logits" else abs(change)
        assert abs(total - change) / scale == pytest.approx(one.completeness_error, abs=1e-5)
        assert head.logits([TEXT])[0, head.classes.index(one.label)] == pytest.approx(
            one.logit, abs=1e-5
        )
        assert one.answer == (head.predict([TEXT])[0],)
        assert one.steps >= 32


def test_special_tokens_stay_and_so_add_nothing(heads):
    found = attributions(heads[:1], TEXT)[0]
    assert [token.text for token in found.tokens if not token.side] == ["[CLS]", "[SEP]"]
    assert all(token.score == 0 for token in found.tokens if not token.side)
    assert any(token.gradient_times_input for token in found.tokens if not token.side)


def test_without_the_average_it_is_what_captum_computes(heads):
    from captum.attr import IntegratedGradients

    for head in heads[:2]:
        module = head.head.module
        own = input_embeddings(head.backbone, head.backbone.encode([TEXT])[0])
        walk = IntegratedGradients(lambda rows, own=own, module=module: module(own.states(rows)))
        theirs = walk.attribute(own.embeddings, own.baseline, target=1, n_steps=64)[0].sum(dim=-1)
        weights = torch.nn.functional.one_hot(torch.tensor(1), len(head.classes)).float()
        pulled = embedding_gradients(module, weights, [own])
        assert pulled is not None
        ours = integrated(
            [ExplainedLogits(module=module, weights=weights, pull=pulled)], [own], 64
        )[0][0]
        assert torch.allclose(ours, theirs, atol=2e-3 * float(theirs.abs().max()))


@pytest.mark.slow
def test_several_heads_at_once_are_each_by_itself(heads):
    together = attributions(heads[1:4], TEXT)
    for one, head in zip(together, heads[1:], strict=False):
        alone = attributions([head], TEXT)[0]
        if alone.steps == one.steps:
            assert [t.score for t in one.tokens] == pytest.approx(
                [t.score for t in alone.tokens], abs=1e-4
            )


def test_the_gradient_is_what_a_small_step_does(heads):
    head = heads[0]
    module, own = head.head.module, input_embeddings(head.backbone, head.backbone.encode([TEXT])[0])
    pulled = embedding_gradients(module, torch.eye(len(head.classes))[0], [own])
    assert pulled is not None
    step = 1e-2 * torch.nn.functional.normalize(pulled.gradients[0].flatten(), dim=0)
    with torch.no_grad():
        moved = [
            module(own.states(own.embeddings + sign * step.view_as(own.embeddings)))[0, 0]
            for sign in (1, -1)
        ]
    slope = float(moved[0] - moved[1]) / 2e-2
    assert slope == pytest.approx(float(pulled.gradients[0].norm()), rel=0.02)


def test_votes_have_no_gradient_and_say_so(heads):
    found = attributions(heads[-1:], TEXT)[0]
    assert "counts votes" in found.why_not
    assert not found.is_complete
    assert sum(token.read for token in found.tokens) == pytest.approx(1, abs=1e-5)


def raised(head, by):
    """The same head with a number of the text's own added to all of its logits alike."""

    class Raised(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, vectors):
            return self.inner(vectors) + by * vectors.square().sum(dim=-1, keepdim=True)

    module = copy(head.head.module)
    module._modules = {**module._modules, "head": Raised(module.head)}
    return replace(head, head=replace(head.head, module=module))


@pytest.mark.parametrize("against", ["others", "runner-up"])
def test_what_is_added_to_all_logits_alike_moves_no_score(heads, against):
    plain, shifted = (
        attributions([head], TEXT, against=against)[0]
        for head in (heads[0], raised(heads[0], 0.01))
    )
    assert shifted.logit != pytest.approx(plain.logit, abs=0.01)  # the logit does move
    assert (shifted.value, shifted.value_on_blanks) == pytest.approx(
        (plain.value, plain.value_on_blanks), abs=1e-3
    )
    scale = max(abs(token.score) for token in plain.tokens)
    assert [token.score for token in shifted.tokens] == pytest.approx(
        [token.score for token in plain.tokens], abs=0.02 * scale
    )


def test_what_a_class_is_held_against(heads):
    head = heads[1]
    logits = head.logits([TEXT])[0]
    for label in head.classes:
        place = head.classes.index(label)
        others = torch.cat([logits[:place], logits[place + 1 :]])
        mean, margin = (
            attributions([head], TEXT, label=label, against=against)[0]
            for against in ("others", "runner-up")
        )
        assert mean.value == pytest.approx(float(logits[place] - others.mean()), abs=1e-4)
        assert margin.value == pytest.approx(float(logits[place] - others.max()), abs=1e-4)
        assert margin.rival == head.classes[int((logits == others.max()).nonzero()[0])]
        assert (margin.value > 0) == (margin.answer == (label,))
        assert mean.quantity == f"the logit of {label} less the mean of the others"
        assert margin.quantity == f"the logit of {label} less that of {margin.rival}"
        for one in (mean, margin):
            change = one.value - one.value_on_blanks
            total = sum(token.score for token in one.tokens)
            assert total == pytest.approx(change, abs=0.011 * max(abs(change), one.span))
    with pytest.raises(DataError):
        attributions([head], TEXT, against="runnerup")


def test_of_one_versus_the_rest_a_class_stands_by_itself(small, rows):
    head = classifiers(["mean+linear?loss=ovr"], rows, small)[0]
    found = attributions([head], "the cat sat on a mat")[0]
    assert (found.value, found.value_on_blanks, found.against) == (found.logit, found.baseline, "")
    assert attributions([head], "the cat", against="runner-up")[0].rival  # which decides


def test_the_mask_behind_a_text_belongs_to_no_text(small, rows):
    for texts in (["the cat sat"], ["the cat sat", "a dog ran"]):
        corpus = rows if len(texts) == 1 else replace(rows, pairs=tuple(reversed(rows.texts)))
        head = classifiers(["mask_token+linear"], corpus, small)[0]
        (found,) = attributions([head], *texts)
        sides = [token.side for token in found.tokens]
        assert ("pair" in sides) == (len(texts) == 2)
        assert sides[-2:] == ["", ""]  # what stands behind the last text


@pytest.fixture(scope="module")
def siamese(small, rows):
    pairs = tuple(reversed(rows.texts))
    corpus = replace(rows, name="pairs", pairs=pairs, fingerprint="pairs")
    recipes = ["mean+linear", "mean+linear?pair=uv_diff", "max+roberta?pair=diff_prod"]
    return classifiers(recipes, corpus, small)


def test_pairs_together_and_each_alone(siamese):
    for one in attributions(siamese, "the cat sat on a mat", "a dog ran home late"):
        assert one.is_complete
        sides = [token.side for token in one.tokens]
        assert (sides.count("text"), sides.count("pair")) == (6, 5)
        assert sides.index("text") < sides.index("pair")
        assert all(any(t.score for t in one.tokens if t.side == side) for side in ("text", "pair"))


def test_a_siamese_head_needs_two_texts(siamese):
    with pytest.raises(DataError):
        attributions(siamese[1:], TEXT)


def test_any_number_of_labels(small, rows):
    targets = tuple((0, 1) if row % 2 else (2,) for row in range(len(rows)))
    corpus = replace(rows, problem=MULTI_LABEL, targets=targets, fingerprint="many")
    head = classifiers(["mean+linear"], corpus, small)[0]
    found = attributions([head], "the cat sat on a mat")[0]
    assert found.is_complete
    assert (found.against, found.value) == ("", found.logit)  # no label competes with another
    assert found.answer == head.predict(["the cat sat on a mat"])[0]


@pytest.mark.parametrize(
    "family",
    slow.but_each(3, ["bert", "roberta", "distilbert", "xlnet", "gpt2", "electra", "deberta-v2",
                      "modernbert", "t5", "bart", "mpnet", "llama"]),
)  # fmt: skip
def test_every_kind_of_base_model(family, tiny, rows):
    backbone = loading.load(str(tiny(family)))
    recipe = "eos@decoder+roberta" if backbone.decoder_width else "last+roberta"
    head = classifiers([recipe], rows, backbone)[0]
    found = attributions([head], "the late cat ran home twice")[0]
    assert found.is_complete
    assert any(token.score for token in found.tokens)
    assert found.logit == pytest.approx(
        float(head.logits(["the late cat ran home twice"]).max()), abs=1e-4
    )


def test_only_the_thread_that_asks_sees_other_embeddings(small):
    encoded = small.encode(["the cat sat"])[0]
    numbers = torch.tensor([encoded.inputs["input_ids"]])
    blank = torch.zeros(1, len(encoded), small.width)
    before = small.states([encoded]).hidden[-1]
    elsewhere = []
    with _looked_up(small, numbers, blank) as used:
        other = threading.Thread(
            target=lambda: elsewhere.append(small.states([encoded]).hidden[-1])
        )
        other.start()
        other.join()
        assert not used
        here = small.states([encoded]).hidden[-1]
    assert torch.equal(elsewhere[0], before)
    assert not torch.equal(here, before)
    assert torch.equal(small.states([encoded]).hidden[-1], before)


def test_a_model_without_a_table_of_tokens_is_refused(small, rows):
    head = classifiers(["mean+linear"], rows, small)[0]

    def no_table():
        raise NotImplementedError

    model = copy(small.model)
    model.get_input_embeddings = no_table
    bare = replace(head, backbone=replace(small, model=model))
    with pytest.raises(ModelError):
        attributions([bare], "the cat")


def test_a_text_of_nothing_but_special_tokens_moves_nothing(heads):
    found = attributions(heads[:1], "\ufffd")[0]
    assert found.is_complete
    assert [token.text for token in found.tokens] == ["[CLS]", "[SEP]"]
    assert all(token.score == 0 for token in found.tokens)
