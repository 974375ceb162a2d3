"""A head of one linear layer is drawn as it is fitted: without dropout, or by AdamW with it."""

from collections.abc import Sequence

import pytest
import torch
from small_training_data import blobs, cells, result, training_data_of
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import RecipeError
from heads.interpret.explanation import explain
from heads.parts.registry import head
from heads.parts.resolve import resolve
from heads.problem import SINGLE_LABEL
from heads.recipe import Recipe
from heads.settings import ExperimentConfig
from heads.training.fitters import batched, successive_halving
from heads.training.fitters.logistic import LinearFitter
from heads.training.fitters.vector_heads import AdamWFitter

SOLVED = ("mean+linear", "cls+linear", "mean+linear?loss=ovr", "mean+gpt2", "mean+logistic")
WITH_DROPOUT = (
    "mean+linear?fit=adamw", "mean+linear?dropout=0.3", "attention+linear",
    "mean+linear?late=true", "mean+linear?tune=last1", "mean+linear?tune=lpft", "mean+roberta",
)  # fmt: skip


def drawn(recipe: str, backbone: Backbone) -> list[str]:
    found = explain(resolve(recipe), backbone, classes=3)
    assert ("drop" in found.formula[-1]) == any(
        "dropout" in step.does for step in found.steps if step.kind == "head"
    )
    return [step.does for step in found.steps if step.kind == "head"]


@pytest.mark.parametrize("recipe", SOLVED)
def test_a_dropout_that_is_never_applied_is_not_drawn(small: Backbone, recipe: str) -> None:
    assert resolve(recipe).is_convex
    assert len(drawn(recipe, small)) == 1


@pytest.mark.parametrize("recipe", WITH_DROPOUT)
def test_a_dropout_that_is_applied_is_drawn(small: Backbone, recipe: str) -> None:
    assert not resolve(recipe).is_convex
    assert any(does.startswith("dropout") for does in drawn(recipe, small))


@pytest.mark.parametrize("name", [*head])
def test_what_is_drawn_is_what_the_fitter_applies(small: Backbone, name: str) -> None:
    """The dropouts of a head are drawn if and only if it is trained by a fitter that steps."""
    data = training_data_of(*blobs(60))
    (trial,) = cells([f"mean+{name}"], small, data)
    dropouts = [one for one in trial.resolved.chain(8, 3).modules() if isinstance(one, nn.Dropout)]
    layers = [one for _, one in trial.resolved.applied_layers(trial.resolved.chain(8, 3))]
    kept = [one for one in layers if isinstance(one, nn.Dropout)]
    assert len(kept) == len(dropouts) * isinstance(trial.fitter, AdamWFitter)
    assert trial.resolved.is_convex == isinstance(trial.fitter, LinearFitter)


def test_fit_adamw_trains_the_same_layers_by_steps(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(successive_halving, "CAP", 24)
    probabilities, drop_out = set[float](), batched.drop_out

    def watched(values: Tensor, probability: float, rngs: Sequence[torch.Generator]) -> Tensor:
        probabilities.add(probability)
        return drop_out(values, probability, rngs)

    monkeypatch.setattr(batched, "drop_out", watched)
    data = training_data_of(*blobs(90), ExperimentConfig(folds=2, curve=False))
    solved, stepped = result(["mean+linear", "mean+linear?fit=adamw"], small, data).values()
    assert {"C"} <= set(solved.chosen[0])
    assert {"learning_rate", "epochs"} <= set(stepped.chosen[0])
    assert probabilities == {0.1}
    one, other = solved.learned[0].state, stepped.learned[0].state
    assert {key: t.shape for key, t in one.items()} == {key: t.shape for key, t in other.items()}


def test_an_imported_head_is_drawn_as_its_class_has_it(small: Backbone) -> None:
    """Who trained it, and with what dropout, is not known here."""

    def layers(training: dict[str, float] | None) -> list[str]:
        made = TrainedHead(
            recipe=Recipe.parse("mean+linear"), model=small.id, classes=("a", "b"),
            problem=SINGLE_LABEL, trained_on="", rows=0, scores=None, training=training,
            module=RecipeModule(resolve("mean+linear"), small, 2),
        )  # fmt: skip
        assert any("L-BFGS" in one for one in made.says) == (training is not None)
        return [name for name, _ in made.layers]

    assert layers(None) == ["dropout", "classifier"]
    assert layers({"C": 1.0}) == ["classifier"]


@pytest.mark.parametrize(
    "recipe",
    [
        "mean+roberta?fit=adamw", "mean+ridge?fit=adamw", "mean+knn?fit=adamw",
        "mean+logistic?fit=adamw", "attention+linear?fit=adamw",
        "mean+linear?dropout=0.3&fit=adamw", "mean+linear?tune=full&fit=adamw",
        "mean+linear?fit=lbfgs", "mean+linear?fit=1",
    ],
)  # fmt: skip
def test_fit_where_it_changes_nothing_is_refused_in_a_sentence(recipe: str) -> None:
    with pytest.raises(RecipeError) as told:
        resolve(recipe)
    assert told.value.hint


def test_names_stay_and_the_control_has_one() -> None:
    assert str(resolve("mean+linear?dropout=0.1").recipe) == "mean+linear"
    assert str(resolve("mean+linear?fit=auto").recipe) == "mean+linear"
    assert str(resolve("mean+linear?dropout=0.1&fit=adamw").recipe) == "mean+linear?fit=adamw"
