"""A calibrated classifier gives the same answers with other probabilities, or says why not."""

from dataclasses import replace

import pytest
import torch
from expected_errors import refusing
from tiny_models import WORDS, write_classifier
from torch.nn.functional import cross_entropy

import heads
from heads.classifier.calibration import CALIBRATED, calibrate, calibrated
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, RecipeError
from heads.evaluation.calibration import temperature
from heads.parts.resolve import head as heads_shelf
from heads.problem import SINGLE_LABEL

TEXTS = [" ".join(WORDS[start : start + length]) for start in range(6) for length in (1, 3, 8)]
# Whose logits come from a linear layer that can be divided.
NOT_DIVIDED = ("knn", "cosine_margin", "proportional_odds")
LAST = [name for name in heads_shelf if name not in NOT_DIVIDED]


def warm(classifier: Classifier, warmth: float = 2.5) -> Classifier:
    """The head with a temperature as if a run had found it."""
    return replace(classifier, head=replace(classifier.head, temperature=warmth))


@pytest.mark.parametrize("recipe", [*(f"mean+{name}" for name in LAST), "mean+linear?late=true"])
def test_logits_are_divided_and_answers_stay(recipe, trained):
    ours = warm(trained(recipe))
    before = ours.logits(TEXTS)
    found = heads.calibrated(ours)
    assert torch.allclose(found.logits(TEXTS), before / 2.5, atol=1e-4, rtol=1e-4)
    assert found.predict(TEXTS) == ours.predict(TEXTS)
    assert (found.head.temperature, found.recipe) == (1.0, ours.recipe)
    assert torch.equal(ours.logits(TEXTS), before)  # what was given is as it was
    assert calibrated(found) is found


@pytest.mark.parametrize("name", NOT_DIVIDED)
def test_what_has_no_such_layer_says_so(name, trained):
    ours = warm(trained(f"mean+{name}", "ordered"))
    with refusing(RecipeError):
        calibrated(ours)
    assert calibrate(ours.head) is ours.head  # by default it is handed out as it is


def test_it_is_as_sure_as_it_is_right(trained, rows):
    """Once divided, its log loss is lower, and a temperature that is searched anew is near 1."""
    targets = torch.tensor([classes[0] for classes in rows.targets])
    ours = trained("mean+ridge")
    before = ours.logits(rows.texts)
    own = temperature(before, targets, SINGLE_LABEL)
    assert abs(own - 1) > 0.05
    found = calibrated(warm(ours, own))
    after = found.logits(rows.texts)
    assert cross_entropy(after, targets) < cross_entropy(before, targets)
    again = temperature(after, targets, SINGLE_LABEL)
    assert abs(again - 1) < abs(own - 1) / 2


def test_thresholds_are_divided_as_well(trained):
    ours = warm(trained("mean+linear", "labels"))
    ordered = ours.logits(TEXTS).sort(dim=0).values
    gaps = ordered.diff(dim=0)[4:-4]  # a threshold far from every logit: rounding decides nothing
    places = 4 + gaps.argmax(dim=0, keepdim=True)
    between = (ordered.gather(0, places) + ordered.gather(0, places + 1)) / 2
    middle = tuple(between[0].tolist())
    tuned = replace(ours, head=replace(ours.head, thresholds=middle))
    found = calibrated(tuned)
    assert found.head.thresholds == pytest.approx([logit / 2.5 for logit in middle])
    assert found.predict(TEXTS) == tuned.predict(TEXTS) != ours.predict(TEXTS)
    assert torch.allclose(found.probabilities(TEXTS), (ours.logits(TEXTS) / 2.5).sigmoid())


@pytest.mark.parametrize("recipe", ["cls+bert", "mean+linear"])
def test_it_is_exported_and_its_card_says_so(recipe, trained, tmp_path):
    ours = warm(trained(recipe))
    found = heads.export(calibrated(ours), tmp_path / "out")
    assert found.native == (recipe == "cls+bert")
    back = heads.load(tmp_path / "out")
    wanted = (ours.logits(TEXTS) / 2.5).softmax(dim=1)
    assert torch.allclose(back.probabilities(TEXTS), wanted, atol=1e-6)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "It is calibrated: its last layer was divided by the temperature 2.5" in card
    assert "if its logits are divided" not in card


def test_what_cannot_be_divided_is_one_sentence(trained):
    for ours in (trained("mean+linear?loss=ovr"), trained("mean+linear", "numbers")):
        with refusing(RecipeError):
            calibrated(warm(ours))
    with refusing(CheckpointError):
        calibrated(warm(trained("mean+linear"), 1.0))
    once = calibrate(warm(trained("mean+linear")).head)
    assert calibrate(once) is once


def test_the_vote_of_divided_logits_is_another_one(trained):
    """Why one-versus-rest is refused: its temperature divides logarithms of sigmoids."""
    logits = trained("mean+logistic?loss=ovr").logits(TEXTS)
    right = (torch.nn.functional.logsigmoid(logits) / 2.5).softmax(dim=1)
    wrong = torch.nn.functional.logsigmoid(logits / 2.5).softmax(dim=1)
    assert (right - wrong).abs().max() > 0.002


# By default, wherever a trained head is handed out


def test_heads_of_a_sample_are_compared_calibrated_and_raw_on_request(tiny):
    asked = {"recipes": ["mean+linear", "cls+roberta"], "model": str(tiny())}
    found = heads.compare("Not bad at all.", **asked)
    raw = heads.compare("Not bad at all.", **asked, raw=True)
    assert any("raw" in note for note in set(raw.notes) - set(found.notes))
    for one, other in zip(found.predictions, raw.predictions, strict=True):
        logits, before = torch.tensor(one.logits), torch.tensor(other.logits)
        assert torch.allclose(logits.softmax(0), torch.tensor(one.probabilities), atol=1e-6)
        factor = before / logits  # one temperature for all classes
        assert torch.allclose(factor, factor[0].expand_as(factor), rtol=1e-3)
        assert abs(float(factor[0]) - 1) > 1e-3
        assert one.answer == other.answer


def test_a_head_that_keeps_no_temperature_apart_is_not_said_to_be_raw(tmp_path):
    folder = write_classifier(tmp_path / "ft", "bert")
    asked = {"recipes": ["own"], "model": str(folder)}
    assert heads.compare("Fine.", **asked, raw=True).notes == heads.compare("Fine.", **asked).notes


def test_heads_of_a_run_and_their_exports_are_calibrated(tiny, tmp_path):
    once = heads.ExperimentConfig(seeds=1, folds=2, curve=False)
    board = heads.train_grid("sentiment", recipes=["mean+linear"], model=str(tiny()), config=once)
    ours = board.classifier("mean+linear")
    assert ours.head.temperature == 1
    assert ours.head.raw is not None
    warmth = ours.head.chosen[CALIBRATED]
    raw = replace(ours, head=ours.head.raw)
    texts = ["Not bad at all.", "Never again."]
    assert torch.allclose(ours.logits(texts) * warmth, raw.logits(texts), atol=1e-4)
    heads.export(ours, tmp_path / "out", refit=False)
    back = heads.load(tmp_path / "out")
    assert torch.allclose(back.logits(texts), ours.logits(texts), atol=1e-6)
    heads.export(raw, tmp_path / "raw", refit=False)
    back = heads.load(tmp_path / "raw")
    assert torch.allclose(back.logits(texts), raw.logits(texts), atol=1e-6)
    assert torch.allclose(heads.calibrated(back).logits(texts), ours.logits(texts), atol=1e-4)


def test_who_is_right_is_said_where_the_class_of_an_example_is_known(tiny):
    asked = {"sample": "sentiment", "recipes": ["mean+linear", "cls+ridge"], "model": str(tiny())}
    found = heads.compare("Great, another delay.", **asked)
    right = [one.name for one in found.predictions if one.answer == ("negative",)]
    assert found.expected == "negative"
    assert ("no head is right" in found.verdict) == (not right)
    assert all(name in found.verdict for name in right)
    assert heads.compare("Another text.", **asked).expected == ""
