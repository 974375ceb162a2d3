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
from safetensors.numpy import save_file
from tiny_models import rewrite
from torch import Tensor, nn

import heads
from heads.backbone.loading import load
from heads.classifier import sentence_head
from heads.classifier.classifier import Classifier
from heads.classifier.fine_tuned import is_fine_tuned
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
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    def write(steps: Sequence[nn.Module], mode: object = "mean", **facts: Any) -> Path:
        model = Transformer(str(base(**facts.pop("config", {}))))
        pooling = Pooling(model.get_embedding_dimension(), mode)  # type: ignore[arg-type]
        whole = SentenceTransformer(modules=[model, pooling, *steps], device="cpu", **facts)
        whole.save(str(tmp_path / "sentences"), create_model_card=False)
        return tmp_path / "sentences"

    return write


def dense(taken: int, given: int, activation: nn.Module, **facts: Any) -> nn.Module:
    from sentence_transformers.models import Dense

    torch.manual_seed(taken + given)
    return Dense(taken, given, activation_function=activation, **facts)


def encoded(folder: Path, name: str = "sentence_embedding") -> Tensor:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    found = model.encode(TEXTS, output_value=None, show_progress_bar=False)
    return torch.stack([one[name] for one in found])


def opened(folder: Path) -> Classifier:
    return heads.load(folder)


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


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
def test_a_last_dense_layer_to_the_labels_is_a_head(
    sentences: Write, steps: list[Any], recipe: str
) -> None:
    folder = sentences([dense(t, g, activation, **facts) for t, g, activation, facts in steps])
    ours = opened(folder)
    assert (str(ours.recipe), ours.classes) == (recipe, ("x", "y", "z"))
    close(ours.logits(TEXTS), encoded(folder))
    compared = heads.compare(TEXTS[0], recipes=["own"], model=str(folder))
    assert compared.predictions[0].logits == pytest.approx(ours.logits(TEXTS[:1])[0].tolist())


def test_logits_under_a_name_of_their_own_are_a_head(sentences: Write) -> None:
    from sentence_transformers.models import Normalize

    own = {"module_output_name": "classes"}
    through = {"module_input_name": "classes", **own}
    hidden = dense(32, 7, nn.ReLU(), **own)
    folder = sentences([hidden, dense(7, 5, nn.Identity(), **through), Normalize()])
    ours = opened(folder)  # five classes, which the config with its three labels does not know
    assert (str(ours.recipe), ours.classes[4]) == ("mean+mlp?hidden=7", "LABEL_4")
    close(ours.logits(TEXTS), encoded(folder, "classes"))
    tensors = [t for step in heads.explain("own", model=str(folder)).steps for t in step.tensors]
    assert "2_Dense/linear.weight" in [one.name for one in tensors]


@pytest.mark.slow
def test_a_prompt_that_is_usual_is_written_before_every_text(sentences: Write) -> None:
    head = [dense(32, 3, nn.Identity())]
    folder = sentences(head, prompts={"query": "the cat: "}, default_prompt_name="query")
    ours = opened(folder)
    assert str(ours.recipe) == "trained+linear"
    close(ours.logits(TEXTS), encoded(folder))


def test_an_embedding_is_no_head(sentences: Write) -> None:
    folder = sentences([dense(32, 12, nn.Identity())])
    with pytest.raises(CheckpointError, match="has no trained head"):
        opened(folder)


def test_a_head_on_texts_in_lower_case_is_told_where_the_tokenizer_keeps_capitals(
    sentences: Write,
) -> None:
    folder = sentences([dense(32, 3, nn.Identity())])
    rewrite(folder / "sentence_bert_config.json", do_lower_case=True)
    with pytest.raises(CheckpointError, match="asks for lower case, and its tokenizer keeps"):
        opened(folder)


def test_layers_that_no_head_has_are_told(sentences: Write) -> None:
    own = {"module_output_name": "logits"}
    on = {"module_input_name": "logits", **own}
    chain = [dense(32, 9, nn.Mish(), **own), dense(9, 3, nn.Identity(), **on)]
    with pytest.raises(CheckpointError, match=r"No head has the classification layers .*Mish"):
        opened(sentences(chain))


@pytest.mark.parametrize(
    ("count", "activation", "problem"),
    slow.but(
        [(1, None, SINGLE_OUTPUT), (1, nn.Identity(), REGRESSION), (3, None, None)], (3, None, None)
    ),
)
def test_a_cross_encoder_comes_in_with_its_activation(
    base: Callable[..., Path], tmp_path: Path, count: int, activation: Any, problem: Any
) -> None:
    from sentence_transformers import CrossEncoder

    torch.manual_seed(0)
    folder = str(base(LABELS[:count]))
    model = CrossEncoder(folder, num_labels=count, activation_fn=activation, device="cpu")
    model.save_pretrained(str(tmp_path / "pairs"))
    ours = opened(tmp_path / "pairs")
    assert ours.head.needs_pairs
    assert problem is None or ours.head.problem is problem
    second = TEXTS[1:] + TEXTS[:1]
    given = model.predict(list(zip(TEXTS, second, strict=True)), convert_to_tensor=True)
    wanted = ours.logits(TEXTS, second) if count > 1 else ours.probabilities(TEXTS, second)
    close(wanted, given.reshape(len(TEXTS), -1))


@pytest.mark.slow
def test_several_labels_are_sigmoids(sentences: Write) -> None:
    several = {"problem_type": MULTI_LABEL.name}
    assert (
        opened(sentences([dense(32, 3, nn.Identity())], config=several)).head.problem is MULTI_LABEL
    )


# --- SetFit.


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

    vectors = encoded(folder).repeat(4, 1)
    vectors = vectors + 0.1 * torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0))
    vectors = nn.functional.normalize(vectors, dim=-1) if length_1 else vectors
    return LogisticRegression().fit(vectors.numpy(), numpy.array([*labels] * 4))


def test_a_pickled_head_is_refused_and_says_what_to_save(setfit: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match=r"model_head\.pkl.* never opened") as caught:
        opened(setfit())
    assert "numpy.savez('model_head.npz', coef=head.coef_" in caught.value.hint


def test_arrays_saved_or_replaced_meanwhile_are_read(setfit: Callable[..., Path]) -> None:
    folder = setfit()
    with pytest.raises(CheckpointError):
        opened(folder)
    for bias in (1.0, 2.0):
        intercept = zeros(3) + numpy.array([bias, 0, 0], "float32")
        numpy.savez(folder / "model_head.npz", coef=zeros(3, 32), intercept=intercept)
        assert opened(folder).logits(TEXTS)[:, 0].tolist() == [bias] * len(TEXTS)


@pytest.mark.parametrize("names", [["x", "y", "z"], ["no", "yes", "no"]], ids=["three", "two"])
@pytest.mark.parametrize("length_1", slow.but([False, True], True))
def test_its_arrays_are_a_head(
    setfit: Callable[..., Path], names: list[str], length_1: bool
) -> None:
    folder = setfit(normalize_embeddings=length_1)
    head = fitted(folder, names, length_1)
    numpy.savez(
        folder / "model_head.npz", coef=head.coef_, intercept=head.intercept_, classes=head.classes_
    )
    ours = opened(folder)
    assert str(ours.recipe) == "mean+linear" + "?normalise=true" * length_1
    assert ours.classes == tuple(sorted(set(names)))
    vectors = encoded(folder)
    vectors = nn.functional.normalize(vectors, dim=-1) if length_1 else vectors
    close(ours.probabilities(TEXTS), torch.tensor(head.predict_proba(vectors.numpy())).float())


@pytest.mark.slow
def test_numbers_of_classes_stand_for_the_names_of_its_config(setfit: Callable[..., Path]) -> None:
    folder = setfit(labels=["low", "middle", "high"])
    head = fitted(folder, [0, 1, 2])
    arrays = {"coef": head.coef_.astype("float32"), "intercept": head.intercept_.astype("float32")}
    save_file(arrays, folder / "model_head.safetensors")
    assert opened(folder).classes == ("low", "middle", "high")
    save_file(arrays, folder / "model_head.safetensors", {"classes": '["a", "b", "c"]'})
    assert opened(folder).classes == ("a", "b", "c")


def zeros(*shape: int) -> numpy.ndarray:
    return numpy.zeros(shape, "float32")


@pytest.mark.parametrize(
    ("arrays", "why"),
    slow.but_each(
        3,
        [
            ({"coef": zeros(3, 32)}, "no array called intercept"),
            ({"coef": zeros(3, 32), "intercept": zeros(2)}, "have the shapes"),
            ({"coef": zeros(3, 32) + numpy.nan, "intercept": zeros(3)}, "NaN"),
            ({"coef": zeros(3, 31), "intercept": zeros(3)}, "takes 31 numbers a text"),
            (
                {"coef": zeros(3, 32), "intercept": zeros(3), "classes": numpy.array(["a"])},
                "3 outputs and 1",
            ),
            ({"coef": zeros(3, 32), "intercept": numpy.array([None])}, "without a pickle"),
            (
                {
                    "coef": zeros(3, 32),
                    "intercept": zeros(3),
                    "classes": numpy.array([object()] * 3),
                },
                "without a pickle",
            ),
        ],
    ),
)
def test_arrays_that_are_no_head_are_told(
    setfit: Callable[..., Path], arrays: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = setfit()
    kept = {
        n: a if a.dtype != object else numpy.array(["x"] * a.size, object)
        for n, a in arrays.items()
    }
    numpy.savez(folder / "model_head.npz", **kept)
    with pytest.raises(CheckpointError, match=why):
        opened(folder)


def test_a_file_that_grows_as_it_is_unpacked_is_not(
    setfit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = setfit()
    numpy.savez_compressed(folder / "model_head.npz", coef=zeros(3, 32), intercept=zeros(3))
    assert opened(folder).classes == ("LABEL_0", "LABEL_1", "LABEL_2")
    shutil.rmtree(folder)
    folder = setfit()
    numpy.savez_compressed(folder / "model_head.npz", coef=zeros(3, 9_000), intercept=zeros(3))
    monkeypatch.setattr(sentence_head, "MOST_ARRAY_BYTES", 100_000)
    with pytest.raises(CheckpointError, match=r"model_head\.npz holds over 0\.1 MB"):
        opened(folder)


def damaged(path: Path) -> None:
    """A packed file of which some bytes are others: its list of files is whole."""
    numpy.savez_compressed(path, coef=zeros(3, 32), intercept=zeros(3))
    raw = bytearray(path.read_bytes())
    raw[45:60] = bytes(255 - byte for byte in raw[45:60])
    path.write_bytes(raw)


COMPLEX = numpy.ones((3, 32), "complex64") * 1j
BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "packed and damaged": ("npz", damaged, "cannot be read without a pickle"),
    "classes that are a number": (
        "safetensors",
        lambda path: save_file(
            {"coef": zeros(3, 32), "intercept": zeros(3)}, path, {"classes": "5"}
        ),
        "has classes that are no JSON list",
    ),
    "complex": (
        "npz",
        lambda path: numpy.savez(path, coef=COMPLEX, intercept=zeros(3)),
        "coef holds complex numbers",
    ),
    "complex, as a tensor": (
        "safetensors",
        lambda path: save_file({"coef": COMPLEX, "intercept": zeros(3)}, path),
        "coef holds complex numbers",
    ),
    "text": (
        "npz",
        lambda path: numpy.savez(path, coef=numpy.array(["a"]), intercept=zeros(3)),
        "cannot be read",
    ),
    "too large": (
        "safetensors",
        lambda path: save_file({"coef": zeros(3, 9_000), "intercept": zeros(3)}, path),
        "model_head.safetensors holds over 0.1 MB",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_of_arrays_is_one_sentence(
    setfit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, (ending, write, why) = setfit(), BROKEN[name]
    write(folder / f"model_head.{ending}")
    monkeypatch.setattr(sentence_head, "MOST_ARRAY_BYTES", 100_000)
    with pytest.raises(CheckpointError, match=why):
        opened(folder)


def is_known(folder: Path) -> bool:
    return is_fine_tuned(load(str(folder)))


def test_each_kind_of_classifier_is_known_as_a_fine_tuned_base_model(
    sentences: Write, setfit: Callable[..., Path]
) -> None:
    assert not is_known(sentences([dense(32, 8, nn.Tanh())]))
    assert is_known(sentences([dense(32, 3, nn.Identity())]))
    assert is_known(setfit())
