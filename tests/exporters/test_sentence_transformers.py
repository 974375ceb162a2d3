"""Folders of sentence-transformers: the library loads them, with our logits, and so do we."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from quick_heads import classifiers
from tiny_models import WORDS, save_tiny
from torch import Tensor

import heads
from heads.backbone import trained_reading
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, build, numbered
from heads.errors import HeadsError, RecipeError
from heads.exporters import sentence_transformers
from heads.exporters.export import check_library, export
from heads.exporters.sentence_transformers import LIBRARY, check_recipe
from heads.exporters.verification import rounding_gain
from heads.parts.resolve import pooling, resolve

# Where modules are imported from has moved; the old place is the one that all versions have.
pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
SCRIPT = Path(__file__).parents[2] / "studies" / "peer_scripts" / "sentence_folders.py"
OTHER_PYTHON = "HEADS_SENTENCE_TRANSFORMERS_5"  # names a Python with a sentence-transformers 5.x
TEXTS = [" ".join(WORDS[start : start + length]) for start in range(3) for length in (1, 3, 8)]
SECOND = TEXTS[4:] + TEXTS[:4]
ROUNDING = 5e-5  # a head that tells apart what is almost alike has large weights
COMES_BACK = {  # as which recipe; only where a name or a layer is another one
    **{recipe: recipe for recipe in ("cls+linear", "max+linear", "mean+linear", "last+gpt2")},
    **{recipe: recipe for recipe in ("sqrt_mean+linear", "weighted+linear", "cls+roberta")},
    **{recipe: recipe for recipe in ("cls_mean+linear", "mean_max+linear", "mean+electra")},
    **{
        recipe: recipe for recipe in ("mean+mlp", "mean+mlp?activation=sigmoid", "mean+norm_linear")
    },
    **{recipe: recipe for recipe in ("mean+dense_linear", "mean+linear?normalise=true")},
    "trained+linear": "mean+linear?normalise=true",  # which the base model was trained with
    "pooler+linear": "trained+linear",
    "cls+bert": "cls+roberta",
    "mean+modernbert": "mean+modernbert?norm_bias=true",
    "mean+cosine": "mean+gpt2?normalise=true",
    "mean+cosine_margin": "mean+gpt2?normalise=true",
    "mean+lda": "mean+linear",
    "mean+linear?loss=ovr": "mean+linear?loss=ovr",
    "mean+linear?prefix=it_was:_": "trained+linear",
    "mean+linear?prefix=it_was:_&include_prefix=false": "trained+linear",
    "last+linear?late=true": "last+linear",
}
OFTEN = ("mean_max+linear", "mean+modernbert")
ALSO = ("pooler+linear", "cls+roberta", "mean+cosine")


@pytest.fixture(scope="module")
def pairs(rows: Corpus) -> Corpus:
    """Sixty made-up pairs of three classes."""
    labels = [("x", "y", "z")[row % 3] for row in range(len(rows.texts))]
    return build("pairs", rows.texts, labels, [*rows.texts[7:], *rows.texts[:7]])


def trained(recipe: str, backbone: Backbone, corpus: Corpus) -> Classifier:
    return classifiers([recipe], corpus, backbone)[0]


def logits(classifier: Classifier) -> Tensor:
    return classifier.logits(TEXTS, SECOND if classifier.head.needs_pairs else [])


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=ROUNDING)


def in_another_process(folders: Sequence[Path], paired: bool, python: Sequence[str]) -> Any:
    """What the library says of folders in a process that knows nothing of this package."""
    asked = [{"path": str(f), "texts": TEXTS, "pairs": SECOND * paired} for f in folders]
    done = subprocess.run(
        [*python, str(SCRIPT)],
        input=json.dumps({"folders": asked, "write": ""}),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "HF_MODULES_CACHE": str(folders[0].parent / "modules"),
        },
    )
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("recipe", "back"), slow.but(COMES_BACK.items(), *((one, COMES_BACK[one]) for one in OFTEN))
)
def test_a_head_goes_out_and_comes_back(
    tmp_path: Path, small: Backbone, rows: Corpus, recipe: str, back: str
) -> None:
    ours = trained(recipe, small, rows)
    found = export(ours, tmp_path / "out", library=LIBRARY)
    assert found.called == "a folder of sentence-transformers for SentenceTransformer"
    assert found.difference <= ROUNDING * rounding_gain(ours)
    assert float(logits(ours).std(dim=0).max()) > 1e-7, "every text got the same logits"
    theirs = heads.load(tmp_path / "out")
    assert (str(theirs.recipe), theirs.classes) == (back, ("x", "y", "z"))
    assert theirs.head.problem is ours.head.problem
    assert not theirs.head.new
    close(logits(theirs), logits(ours))


@pytest.mark.parametrize("family", slow.but(("gpt2", "distilbert", "roberta", "modernbert")))
def test_other_families_go_out_and_come_back(tmp_path: Path, rows: Corpus, family: str) -> None:
    base = load(str(save_tiny(tmp_path / "base", family)))
    ours = trained("mean+linear", base, rows)
    assert export(ours, tmp_path / "out", library=LIBRARY).difference <= 1e-5
    close(logits(heads.load(tmp_path / "out")), logits(ours))


@pytest.mark.slow
def test_the_vector_stays_and_the_logits_have_a_name_of_their_own(
    tmp_path: Path, small: Backbone, rows: Corpus
) -> None:
    recipes = ("mean+mlp", "mean+norm_linear", "cls+linear")
    ours = [trained(recipe, small, rows) for recipe in recipes]
    folders = [
        export(one, tmp_path / str(at), library=LIBRARY).folder for at, one in enumerate(ours)
    ]
    told = in_another_process(folders, False, [sys.executable])
    for answer, classifier in zip(told["answers"], ours, strict=True):
        close(torch.tensor(answer["logits"]), logits(classifier))
        close(torch.tensor(answer["vectors"]), classifier._read(TEXTS))


@pytest.mark.parametrize(
    ("recipe", "called"),
    [
        pytest.param(
            "cls+bert",
            "CrossEncoder and BertForSequenceClassification",
            marks=pytest.mark.slow,
        ),
        ("mean+linear", "CrossEncoder and HeadForSequenceClassification"),
        ("mean@1+linear?pair=uv_diff", "CrossEncoder and HeadForSequenceClassification"),
    ],
)
def test_a_head_on_pairs_is_a_cross_encoder(
    tmp_path: Path, small: Backbone, pairs: Corpus, recipe: str, called: str
) -> None:
    ours = trained(recipe, small, pairs)
    found = export(ours, tmp_path / "out", library=LIBRARY)
    assert found.called == f"a folder of sentence-transformers for {called}"
    back = heads.load(tmp_path / "out")
    assert (back.recipe, back.head.needs_pairs) == (resolve(recipe).recipe, True)
    close(logits(back), logits(ours))
    from sentence_transformers import CrossEncoder

    has_code = "trust_remote_code=True" in found.usage
    assert has_code is ("modeling_head_to_head.py" in found.files)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert found.usage in card
    assert has_code is ("custom_code" in card)
    model = CrossEncoder(str(tmp_path / "out"), device="cpu")  # of a class that is registered here
    both = list(zip(TEXTS, SECOND, strict=True))
    close(torch.as_tensor(model.predict(both)), logits(ours))
    shares = torch.as_tensor(model.predict(both, apply_softmax=True))
    close(shares, ours.probabilities(TEXTS, SECOND))


@pytest.mark.slow
def test_a_cross_encoder_with_code_loads_where_this_package_is_not_imported(
    tmp_path: Path, small: Backbone, pairs: Corpus
) -> None:
    recipes = ("mean+linear", "std+linear", "mean+knn", "mean+linear?pair=uv_diff&prefix=it_was:_")
    ours = [trained(recipe, small, pairs) for recipe in recipes]
    folders = [
        export(classifier, tmp_path / str(number), library=LIBRARY).folder
        for number, classifier in enumerate(ours)
    ]
    told = in_another_process(folders, True, [sys.executable])
    for answer, classifier in zip(told["answers"], ours, strict=True):
        close(torch.tensor(answer["logits"]), logits(classifier))


def test_a_cross_encoder_of_modules_as_older_versions_wrote_it_still_opens(
    tmp_path: Path, small: Backbone, rows: Corpus
) -> None:
    ours = trained("mean+linear", small, rows)
    folder = export(ours, tmp_path / "out", library=LIBRARY).folder
    for path, key, value in (
        (folder / "2_Dense" / "config.json", "module_output_name", trained_reading.SCORES),
        (folder / trained_reading.PROMPTS, "model_type", trained_reading.CROSS_ENCODER),
    ):
        values = json.loads(path.read_text("utf-8")) | {key: value}
        path.write_text(json.dumps(values), "utf-8")
    back = heads.load(folder)
    assert (str(back.recipe), back.head.needs_pairs) == ("mean+linear", True)
    close(back.logits(TEXTS, SECOND), ours.logits(TEXTS, SECOND))


def test_a_number_of_a_pair_is_what_predict_gives(tmp_path: Path, small: Backbone) -> None:
    corpus = numbered("pairs", TEXTS * 3, [float(one) for one in range(len(TEXTS) * 3)], SECOND * 3)
    ours = trained("mean+linear", small, corpus)
    export(ours, tmp_path / "out", library=LIBRARY)
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(tmp_path / "out"), device="cpu")
    given = model.predict(list(zip(TEXTS, SECOND, strict=True)))  # no sigmoid of it
    close(torch.as_tensor(given)[:, None], logits(ours))
    back = heads.load(tmp_path / "out")
    assert back.head.problem.gives_number
    close(logits(back), logits(ours))


@pytest.mark.slow
def test_labels_that_may_be_several_keep_their_thresholds(tmp_path: Path, small: Backbone) -> None:
    sets = [("x",), ("x", "y"), ("y", "z")] * 9
    ours = trained("mean+linear", small, build("tags", TEXTS * 3, sets))
    export(ours, tmp_path / "out", library=LIBRARY)
    back = heads.load(tmp_path / "out")
    assert back.head.problem is ours.head.problem
    assert back.head.thresholds == pytest.approx(ours.head.thresholds, abs=1e-5)
    assert back.predict(TEXTS) == ours.predict(TEXTS)


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("std+linear", "no pooling that reads as std does"),
        ("mean@1+linear", "other layers than the last"),
        ("mean@cat4+linear", "other layers than the last"),
        ("mean+linear?late=true", "applies its head to every token"),
        ("mask_token+linear", "writes a prompt behind every text"),
        ("mean+linear?long=windows", "reads a long text in windows"),
        ("mean+knn", "vote of neighbours"),
        ("mean+residual", "network beside the vector"),
        ("mean+proportional_odds", "ordered thresholds"),
        ("mean+mlp?activation=gelu_new", "NewGELUActivation"),
        ("mean+norm_linear?eps=0.001", "layer norm"),
        ("attention+linear", "no pooling that reads as attention does"),
    ],
)
def test_what_the_library_cannot_compute_is_refused_before_training(
    small: Backbone, recipe: str, why: str
) -> None:
    with pytest.raises(RecipeError, match=why) as caught:
        check_recipe(resolve(recipe), small)
    assert "Export it without --as" in caught.value.hint
    in_onnx = not any(word in why for word in ("prompt", "windows"))  # what ONNX does not hold
    assert ("ONNX" in caught.value.hint) is in_onnx


def test_windows_are_refused_where_a_trained_head_is_exported(
    tmp_path: Path, small: Backbone, rows: Corpus
) -> None:
    ours = trained("mean+logistic?long=windows&stride=4", small, rows)
    with pytest.raises(RecipeError, match="reads a long text in windows"):
        export(ours, tmp_path / "out", library=LIBRARY)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", list(pooling))
def test_every_pooling_is_written_or_refused(small: Backbone, name: str) -> None:
    expected: Any = pytest.raises(RecipeError, match=r"No modules|no pooling")
    if name in {*sentence_transformers.MODES, "trained", "pooler"}:
        expected = nullcontext()
    with expected:
        check_recipe(resolve(f"{name}+linear"), small)


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ("setfit", "SetFit keeps its head as a pickle"),
        ("onnx", "--onnx"),
        ("portable", "model of Transformers"),
        ("keras", "'keras' is no library"),
    ],
)
def test_another_library_is_refused_in_a_sentence(library: str, why: str) -> None:
    with pytest.raises(RecipeError, match=why) as caught:
        check_library(library)
    assert "transformers, sentence-transformers" in caught.value.hint
    with pytest.raises(RecipeError, match="of no library to choose"):
        check_library(LIBRARY, adapter=True)


def test_what_the_library_reads_otherwise_is_not_kept(
    tmp_path: Path, small: Backbone, rows: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = trained("mean+linear", small, rows)
    monkeypatch.setitem(sentence_transformers.MODES, "mean", ("max",))
    with pytest.raises(HeadsError, match=r"does not read .* as we do") as caught:
        export(ours, tmp_path / "out", library=LIBRARY)
    assert "without --as" in caught.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_without_the_library_the_folder_is_read_by_our_own_reader(
    tmp_path: Path, small: Backbone, rows: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentence_transformers, "find_spec", lambda _: None)
    found = export(trained("mean+linear", small, rows), tmp_path / "out", library=LIBRARY)
    assert found.difference <= 1e-5
    assert any("is not installed here" in note for note in found.notes)


def test_its_files_name_no_code_and_no_folder_of_this_machine(
    tmp_path: Path, small: Backbone, rows: Corpus
) -> None:
    found = export(trained("mean+linear", small, rows), tmp_path / "out", library=LIBRARY)
    assert not [name for name in found.files if name.endswith((".py", ".pkl", ".bin"))]
    listed = json.loads((found.folder / "modules.json").read_text("utf-8"))
    assert all(one["type"].startswith("sentence_transformers.models.") for one in listed)
    dense = json.loads((found.folder / listed[-1]["path"] / "config.json").read_text("utf-8"))
    assert dense["activation_function"].endswith(".Identity")  # unsaid, it is a tanh
    assert dense["module_output_name"] == trained_reading.LOGITS
    for name in found.files:
        if name.endswith((".json", ".md")):
            assert str(tmp_path) not in (found.folder / name).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.skipif(OTHER_PYTHON not in os.environ, reason=f"{OTHER_PYTHON} names no Python")
def test_a_library_before_the_sixth_gives_the_same(
    tmp_path: Path, backbone: Backbone, rows: Corpus, pairs: Corpus
) -> None:
    """With the bundled model, for such a library may come with a Transformers before the fifth,
    which does not know how the tiny one's tokenizer is written."""
    single = [trained(recipe, backbone, rows) for recipe in (*OFTEN, *ALSO)]
    paired = [trained("cls+bert", backbone, pairs)]
    python = os.environ[OTHER_PYTHON].split()
    for number, group in enumerate((single, paired)):
        folders = [
            export(one, tmp_path / f"{number}-{at}", library=LIBRARY).folder
            for at, one in enumerate(group)
        ]
        told = in_another_process(folders, bool(number), python)
        assert told["version"].startswith("5.")
        for answer, classifier in zip(told["answers"], group, strict=True):
            if group is single and int(told["version"].split(".")[1]) < 4:
                assert "error" in answer  # docs/folders.md says so
                continue
            assert "error" not in answer, f"{classifier.recipe}: {answer['error']}"
            close(torch.tensor(answer["logits"]), logits(classifier))
