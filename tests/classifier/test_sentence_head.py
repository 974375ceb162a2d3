"""Folders that sentence-transformers and SetFit wrote open as classifiers, with their logits."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import slow
import torch
from expected_errors import refusing
from safetensors.numpy import save_file
from sentence_folders import close, dense, encoded, write_sentences
from tiny_models import rewrite
from torch import nn

import heads
from heads.api import explain
from heads.backbone.loading import load
from heads.classifier import sentence_head
from heads.classifier.pretrained import is_fine_tuned
from heads.errors import CheckpointError
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_OUTPUT

library = pytest.importorskip("sentence_transformers", reason="the library is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
TEXTS = ["the old dog barks at the cat", "a dog", "it runs and runs and runs"]
LABELS = ["x", "y", "z"]
Write = Callable[..., Path]


@pytest.fixture
def base(tiny: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """A tiny BERT whose config has labels."""

    def write(labels: Sequence[str] = LABELS, **config: Any) -> Path:
        copy = tmp_path / "base"
        shutil.copytree(tiny("roberta"), copy, dirs_exist_ok=True)
        names = {str(number): name for number, name in enumerate(labels)}
        rewrite(copy / "config.json", id2label=names, label2id={n: i for i, n in names.items()})
        rewrite(copy / "config.json", **config)
        return copy

    return write


@pytest.fixture
def sentences(base: Callable[..., Path], tmp_path: Path) -> Write:
    """Writes a SentenceTransformer: the tiny model, a pooling, and what else is asked for."""

    def write(steps: Sequence[nn.Module], **facts: Any) -> Path:
        folder = base(**facts.pop("config", {}))
        return write_sentences(tmp_path / "sentences", folder, "mean", steps, **facts)

    return write


@pytest.mark.parametrize(
    ("steps", "recipe"),
    [
        ([(32, 3, nn.Identity(), {})], "mean+linear"),
        pytest.param(
            [(32, 3, nn.Identity(), {"bias": False})], "mean+gpt2", marks=pytest.mark.slow
        ),
        pytest.param(
            [(32, 12, nn.Tanh(), {}), (12, 3, nn.Identity(), {})],
            "trained+linear",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_last_dense_layer_to_the_labels_is_a_head(sentences, steps, recipe):
    folder = sentences([dense(t, g, activation, **facts) for t, g, activation, facts in steps])
    ours = heads.load(folder)
    assert (str(ours.recipe), ours.classes) == (recipe, ("x", "y", "z"))
    close(ours.logits(TEXTS), encoded(folder, TEXTS))
    compared = heads.compare(TEXTS[0], recipes=["own"], model=str(folder))
    assert compared.predictions[0].logits == pytest.approx(ours.logits(TEXTS[:1])[0].tolist())


def test_logits_under_a_name_of_their_own_are_a_head(sentences):
    from sentence_transformers.models import Normalize

    own = {"module_output_name": "classes"}
    through = {"module_input_name": "classes", **own}
    hidden = dense(32, 7, nn.ReLU(), **own)
    folder = sentences([hidden, dense(7, 5, nn.Identity(), **through), Normalize()])
    ours = heads.load(folder)  # five classes, which the config with its three labels does not know
    assert (str(ours.recipe), ours.classes[4]) == ("mean+mlp?hidden=7", "LABEL_4")
    close(ours.logits(TEXTS), encoded(folder, TEXTS, "classes"))
    tensors = [t for step in explain("own", model=str(folder)).steps for t in step.tensors]
    assert "2_Dense/linear.weight" in [one.name for one in tensors]


@pytest.mark.slow
def test_a_prompt_that_is_usual_is_written_before_every_text(sentences):
    head = [dense(32, 3, nn.Identity())]
    folder = sentences(head, prompts={"query": "the cat: "}, default_prompt_name="query")
    ours = heads.load(folder)
    assert str(ours.recipe) == "trained+linear"
    close(ours.logits(TEXTS), encoded(folder, TEXTS))


def test_what_is_no_head_is_told(sentences):
    with refusing(CheckpointError):
        heads.load(sentences([dense(32, 12, nn.Identity())]))  # an embedding
    folder = sentences([dense(32, 3, nn.Identity())])
    rewrite(folder / "sentence_bert_config.json", do_lower_case=True)
    with refusing(CheckpointError, "lower case"):  # where the tokenizer keeps capitals
        heads.load(folder)
    shutil.rmtree(folder)
    own = {"module_output_name": "logits"}
    on = {"module_input_name": "logits", **own}
    chain = [dense(32, 9, nn.Mish(), **own), dense(9, 3, nn.Identity(), **on)]
    with refusing(CheckpointError, "Mish"):
        heads.load(sentences(chain))


@pytest.mark.parametrize(
    ("count", "activation", "problem"),
    slow.but(
        [(1, None, SINGLE_OUTPUT), (1, nn.Identity(), REGRESSION), (3, None, None)], (3, None, None)
    ),
)
def test_a_cross_encoder_comes_in_with_its_activation(base, tmp_path, count, activation, problem):
    from sentence_transformers import CrossEncoder

    torch.manual_seed(0)
    folder = str(base(LABELS[:count]))
    model = CrossEncoder(folder, num_labels=count, activation_fn=activation, device="cpu")
    model.save_pretrained(str(tmp_path / "pairs"))
    ours = heads.load(tmp_path / "pairs")
    assert ours.head.needs_pairs
    assert problem is None or ours.head.problem is problem
    second = TEXTS[1:] + TEXTS[:1]
    given = model.predict(list(zip(TEXTS, second, strict=True)), convert_to_tensor=True)
    wanted = ours.logits(TEXTS, second) if count > 1 else ours.probabilities(TEXTS, second)
    close(wanted, given.reshape(len(TEXTS), -1))


@pytest.mark.slow
def test_several_labels_are_sigmoids(sentences):
    several = {"problem_type": MULTI_LABEL.name}
    assert (
        heads.load(sentences([dense(32, 3, nn.Identity())], config=several)).head.problem
        is MULTI_LABEL
    )


# --- SetFit.


def zeros(*shape: int) -> numpy.ndarray:
    return numpy.zeros(shape, "float32")


@pytest.fixture
def setfit(sentences: Write) -> Callable[..., Path]:
    """Writes what SetFit writes, with a pickle that must never be opened."""

    def write(labels: Any = None, **config: Any) -> Path:
        folder = sentences([])
        facts = {"labels": labels, "normalize_embeddings": False, **config}
        (folder / "config_setfit.json").write_text(json.dumps(facts), "utf-8")
        (folder / "model_head.pkl").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
        return folder

    return write


def fitted(folder: Path, labels: Sequence[Any], length_1: bool = False) -> Any:
    """A head as SetFit's: scikit-learn's logistic regression on what the body encodes."""
    from sklearn.linear_model import LogisticRegression

    vectors = encoded(folder, TEXTS).repeat(4, 1)
    vectors = vectors + 0.1 * torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0))
    vectors = nn.functional.normalize(vectors, dim=-1) if length_1 else vectors
    return LogisticRegression().fit(vectors.numpy(), numpy.array([*labels] * 4))


def test_a_pickled_head_is_refused_and_says_what_to_save(setfit):
    with refusing(CheckpointError, "model_head.pkl", "numpy.savez('model_head.npz', coef="):
        heads.load(setfit())


def test_arrays_saved_or_replaced_meanwhile_are_read(setfit):
    folder = setfit()
    with pytest.raises(CheckpointError):
        heads.load(folder)
    for bias in (1.0, 2.0):
        intercept = zeros(3) + numpy.array([bias, 0, 0], "float32")
        numpy.savez(folder / "model_head.npz", coef=zeros(3, 32), intercept=intercept)
        assert heads.load(folder).logits(TEXTS)[:, 0].tolist() == [bias] * len(TEXTS)


@pytest.mark.parametrize("names", [["x", "y", "z"], ["no", "yes", "no"]], ids=["three", "two"])
@pytest.mark.parametrize("length_1", slow.but([False, True], True))
def test_its_arrays_are_a_head(setfit, names, length_1):
    folder = setfit(normalize_embeddings=length_1)
    head = fitted(folder, names, length_1)
    numpy.savez(
        folder / "model_head.npz", coef=head.coef_, intercept=head.intercept_, classes=head.classes_
    )
    ours = heads.load(folder)
    assert str(ours.recipe) == "mean+linear" + "?normalise=true" * length_1
    assert ours.classes == tuple(sorted(set(names)))
    vectors = encoded(folder, TEXTS)
    vectors = nn.functional.normalize(vectors, dim=-1) if length_1 else vectors
    close(ours.probabilities(TEXTS), torch.tensor(head.predict_proba(vectors.numpy())).float())


@pytest.mark.slow
def test_numbers_of_classes_stand_for_the_names_of_its_config(setfit):
    folder = setfit(labels=["low", "middle", "high"])
    head = fitted(folder, [0, 1, 2])
    arrays = {"coef": head.coef_.astype("float32"), "intercept": head.intercept_.astype("float32")}
    save_file(arrays, folder / "model_head.safetensors")
    assert heads.load(folder).classes == ("low", "middle", "high")
    save_file(arrays, folder / "model_head.safetensors", {"classes": '["a", "b", "c"]'})
    assert heads.load(folder).classes == ("a", "b", "c")


def damaged(path: Path) -> None:
    """A packed file of which some bytes are others: its list of files is whole."""
    numpy.savez_compressed(path, coef=zeros(3, 32), intercept=zeros(3))
    raw = bytearray(path.read_bytes())
    raw[45:60] = bytes(255 - byte for byte in raw[45:60])
    path.write_bytes(raw)


def arrays(pack: Callable[..., object] = numpy.savez, **other: Any) -> Callable[[Path], object]:
    """Write coefficients of three classes, some of them others."""
    given = {"coef": zeros(3, 32), "intercept": zeros(3)} | other
    return lambda path: pack(path, **{name: own for name, own in given.items() if own is not None})


def tensors(facts: Any = None, **other: Any) -> Callable[[Path], object]:
    return arrays(lambda path, **given: save_file(given, path, facts), **other)


COMPLEX = numpy.ones((3, 32), "complex64") * 1j
OBJECTS = numpy.array(["x"] * 3, object)  # which takes a pickle
BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no intercept": ("npz", arrays(intercept=None), "intercept"),
    "shapes": ("npz", arrays(intercept=zeros(2)), "shapes"),
    "NaN": ("npz", arrays(coef=zeros(3, 32) + numpy.nan), "NaN"),
    "width": ("npz", arrays(coef=zeros(3, 31)), "31"),
    "classes": ("npz", arrays(classes=numpy.array(["a"])), "3 outputs and 1"),
    "pickled intercept": ("npz", arrays(intercept=OBJECTS), "pickle"),
    "pickled classes": ("npz", arrays(classes=OBJECTS), "pickle"),
    "packed and damaged": ("npz", damaged, "pickle"),
    "classes that are a number": ("safetensors", tensors({"classes": "5"}), "JSON list"),
    "complex": ("npz", arrays(coef=COMPLEX), "complex"),
    "complex, as a tensor": ("safetensors", tensors(coef=COMPLEX), "complex"),
    "text": ("npz", arrays(coef=numpy.array(["a"])), "model_head.npz"),
    "too large": ("safetensors", tensors(coef=zeros(3, 9_000)), "0.1 MB"),
    "too large unpacked": ("npz", arrays(numpy.savez_compressed, coef=zeros(3, 9_000)), "0.1 MB"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_of_arrays_is_one_sentence(setfit, monkeypatch, name):
    folder, (ending, write, why) = setfit(), BROKEN[name]
    write(folder / f"model_head.{ending}")
    monkeypatch.setattr(sentence_head, "MOST_ARRAY_BYTES", 100_000)
    with refusing(CheckpointError, why):
        heads.load(folder)


def is_known(folder: Path) -> bool:
    return is_fine_tuned(load(str(folder)))


def test_each_kind_of_classifier_is_known_as_a_fine_tuned_base_model(sentences, setfit):
    assert not is_known(sentences([dense(32, 8, nn.Tanh())]))
    assert is_known(sentences([dense(32, 3, nn.Identity())]))
    assert is_known(setfit())
