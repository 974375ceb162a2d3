"""Texts go to the base model as they stand: its answers are those of Transformers' own class."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
import slow
import torch
import transformers
from tiny_models import FORMS, OTHERS, PIECES, Cut, real_tokenizer
from torch import Tensor

from heads.api import load
from heads.catalog.families import FAMILIES, family
from heads.catalog.tiny_models import quiet, tiny_model
from heads.classifier.classifier import Classifier
from heads.data.arrays import texts_of
from heads.data.text import CONTROLS
from heads.errors import CheckpointError
from heads.exporters.verification import verify_logits
from heads.interpret.attribution import attributions
from heads.interpret.counterfactuals import compare_edits, suggest_edits
from heads.interpret.outputs import head_outputs
from heads.interpret.padding.subject import SENTENCES

ROUNDING = 1e-6  # of the largest logit
MOST = 1024  # tokens
SEEN = 1e-3
TEXTS = (
    "Not bad at all.",
    " Not bad at all.",
    "\tNot bad at all. \n",
    "the cat  sat\r\n\r\non a mat ",
    "A caf\u00e9 au lait, a na\u00efve review",
    "A cafe\u0301 au lait, a nai\u0308ve review",
    "late\x07 fli\x00ght\x1b[31m \x85was cancelled",
    "so good 😀👍🏽 👩‍👩‍👧",
    "\u00a0the\u3000dog\u200b ran\ufeff ",
    " ".join(["the flight was cancelled"] * 150) + " ",
)
COMPOSED, DECOMPOSED = 4, 5
# How a family's own tokenizers cut texts.
CUTS: dict[str, Cut] = {
    **dict.fromkeys(("gpt2", "roberta", "bart", "longformer", "llama", "opt"), "bytes"),
    **dict.fromkeys(("modernbert", "modernbert-decoder", "eurobert"), "bytes"),
    **dict.fromkeys(("bert", "electra", "distilbert", "funnel"), "words"),
    **dict.fromkeys(("ultrabert", "gte", "nomic_bert"), "words"),
    **dict.fromkeys(("deberta-v2", "xlnet", "albert", "fnet", "xlm", "reformer"), "pieces"),
    **dict.fromkeys(("t5", "t5gemma", "t5gemma2", "gemma3"), "pieces"),
}
OFTEN = ("gpt2", "bert", "deberta-v2", "t5", "bart", "modernbert")
CLASSIFIERS = {**FORMS, **OTHERS}
# Their classes answer otherwise in a padded batch than alone: nobody can give both.
READ_PADDING = ("funnel", "fnet", "reformer", "t5gemma", "t5gemma2")
SETTINGS: dict[str, dict[str, Any]] = {"reformer": {"axial_pos_shape": [32, 32]}}


def write(folder: Path, model_type: str) -> Path:
    """Writes a family's classifier, small and random, with a tokenizer as the family has it."""
    sizes = dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), MOST)
    config = transformers.CONFIG_MAPPING[model_type]().to_dict()
    known = {name: size for name, size in sizes.items() if name in config}
    settings = {"vocab_size": PIECES, "pad_token_id": 0} | known | SETTINGS.get(model_type, {})
    tiny_model(model_type, **settings).save_pretrained(folder)
    template = CLASSIFIERS[model_type][0]
    real_tokenizer(CUTS[model_type], template, MOST).save_pretrained(folder)
    return folder


def logits_by_transformers(folder: Path, texts: Sequence[str], side: str) -> list[Tensor]:
    """Return the logits of each text alone, of all in a padded batch, and of each with the next."""
    with quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side=side)
        cut: dict[str, Any] = {"truncation": True, "return_tensors": "pt"}
        alone = [model(**tokenizer(text, **cut)).logits for text in texts]
        padded = model(**tokenizer(list(texts), **cut, padding=True)).logits
        both = [model(**tokenizer(*two, **cut)).logits for two in pairwise(texts[:4])]
        return [torch.cat(alone), padded, torch.cat(both)]


def difference(one: Tensor, other: Tensor) -> float:
    assert one.shape == other.shape
    return float((one - other).abs().max() / other.abs().max().clamp(min=1))


def test_there_is_one_of_each_form_that_a_recipe_expresses():
    forms = [family(name).name for name in FORMS]
    assert len(set(forms)) == len(forms)
    assert set(forms) == {form.name for form in FAMILIES.values() if not form.reason}


@pytest.mark.parametrize("model_type", slow.but(CUTS, *OFTEN))
def test_a_classifier_comes_in_with_the_logits_of_its_class(tmp_path, model_type, request):
    folder = write(tmp_path / model_type, model_type)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = load(str(folder))
    assert (str(found.recipe), found.head.new) == (CLASSIFIERS[model_type][1], ())
    side = family(model_type).sides_of(found.head.module.reader.resolved)[0]
    alone, padded, both = logits_by_transformers(folder, TEXTS, side)
    assert difference(alone[DECOMPOSED], alone[COMPOSED]) > SEEN
    gaps = [difference(found.logits([text]), alone[row][None]) for row, text in enumerate(TEXTS)]
    gaps.append(difference(found.logits(TEXTS), alone))
    if model_type in READ_PADDING:
        assert difference(padded, alone) > SEEN
    else:
        gaps.append(difference(found.logits(TEXTS), padded))
    if model_type in FORMS and model_type != "gpt2":  # which has no token between two texts
        assert difference(both, alone[:3]) > SEEN
        gaps.append(difference(found.logits(TEXTS[:3], TEXTS[1:4]), both))
    request.node.user_properties.append(("difference", max(gaps)))  # read by --junit-xml
    assert max(gaps) <= ROUNDING
    assert difference(found.probabilities(TEXTS), alone.softmax(dim=1)) <= ROUNDING
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    """GPT-2 small and random, whose tokens are bytes."""
    return load(str(write(tmp_path_factory.mktemp("raw") / "gpt2", "gpt2")))


CLEANED: dict[str, Callable[[str], str]] = {
    "spaces": str.strip,
    "composed": partial(normalize, "NFC"),
    "controls": partial(CONTROLS.sub, ""),
}


@pytest.mark.parametrize("clean", CLEANED.values(), ids=CLEANED)
def test_an_export_that_cleans_texts_is_refused(gpt2, clean):
    def answer(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        return gpt2.logits(list(map(clean, texts)), list(map(clean, pairs)))

    assert verify_logits(gpt2, gpt2.logits, most=ROUNDING)[1] <= ROUNDING
    with pytest.raises(CheckpointError):
        verify_logits(gpt2, answer, most=ROUNDING)


def test_the_padding_report_reads_raw_texts():
    short, long = SENTENCES
    assert CLEANED["spaces"](short) != short
    assert long not in (CLEANED["composed"](long), CLEANED["controls"](long))


def test_tokens_that_are_shown_hold_no_control_characters(gpt2):
    words = [word for one in gpt2.backbone.encode(TEXTS) for word in gpt2.backbone.words(one)]
    assert all(words)
    assert not any(map(CONTROLS.search, words))


def test_every_way_to_ask_reads_the_raw_text(gpt2):
    text = " Not bad\x07 at all\n"
    (alone,) = gpt2.logits([text]).tolist()
    assert alone != gpt2.logits(["Not bad at all"]).tolist()[0]
    (said,) = head_outputs([gpt2], text)
    assert said.logits == pytest.approx(alone, abs=ROUNDING)
    (found,) = attributions([gpt2], text, label=gpt2.classes[0])
    assert found.logit == pytest.approx(alone[0], abs=1e-5)
    assert len(found.tokens) == len(gpt2.backbone.encode([text])[0])
    changed = compare_edits([gpt2], text, [f"{text} "])
    assert (changed.original.text, changed.edits[0].text) == (text, f"{text} ")
    assert texts_of([text, "b"]).texts == (text, "b")
    assert all(line[0] == " " and line[-1] == "\n" for line in suggest_edits(text))
