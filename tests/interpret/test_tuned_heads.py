"""Heads that learned their base model beside one that did not: each answers as it does alone."""

import torch
from quick_heads import trained

from heads.backbone.backbone import Backbone
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import HeadInputs
from heads.classifier.prediction import predict
from heads.data.corpus import Corpus
from heads.events import result
from heads.inference.selection import SelectedHeads
from heads.interpret.ablation import ablate_layers
from heads.runs.trainer import first_split
from heads.settings import ExperimentConfig

ONCE = ExperimentConfig(epochs=1, trials=1)
TEXT = ["the cat sat on a mat and ran"]


def test_heads_asked_together_answer_as_each_does_alone(small: Backbone, rows: Corpus) -> None:
    before = {name: tensor.clone() for name, tensor in small.model.state_dict().items()}
    recipes = ["mean+linear?tune=full", "mean+linear", "mean+linear?tune=lora"]
    heads = trained(recipes, rows, small, ONCE)
    inputs = HeadInputs(small, TEXT)
    together = [predict(inputs, head) for head in heads]
    for head, told in zip(heads, together, strict=True):
        assert told == predict(HeadInputs(small, TEXT), head)
        logits = Classifier(backbone=small, head=head).logits(TEXT)
        assert told.logits == tuple(logits[0].tolist())
    assert len({told.logits for told in together}) == 3
    assert [bool(told.base_parameters) for told in together] == [True, False, True]
    own = small.model.state_dict()
    assert own.keys() == before.keys()
    assert all(torch.equal(own[name], tensor) for name, tensor in before.items())


def test_a_tuned_head_is_not_trained_anew_without_a_layer(small: Backbone, rows: Corpus) -> None:
    [head] = trained(["cls+roberta?tune=last1"], rows, small, ONCE)
    classifier = Classifier(backbone=small, head=head)
    asked = SelectedHeads(
        classifiers=(classifier,), corpus=rows, split_rows=lambda: first_split(rows, ONCE)
    )
    [found] = result(ablate_layers(asked, TEXT[0], without="dense"))
    assert found.after is not None
    assert found.effect is not None
    assert found.retrained is None
    assert "train cls+roberta?tune=last1&without=dense yourself" in found.why_not_retrained
