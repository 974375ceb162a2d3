"""Every export answers as its head: every family of recipes, every target, every kind of label."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import slow
import torch
import transformers
from exports_alone import USAGE_TEXTS, read_alone, run_alone
from quick_heads import QUICK, TUNED, classifiers
from tiny_models import FAMILIES, FORMS, OTHERS, WORDS, write_classifier
from torch import Tensor

import heads
from heads.backbone import trained_reading
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.catalog.families import family as family_of
from heads.catalog.tiny_models import quiet
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, build, in_order, numbered
from heads.exporters import onnx
from heads.exporters.export import export
from heads.exporters.sentence_transformers import LIBRARY
from heads.exporters.verification import rounding_gain
from heads.parts.resolve import head, layers, pairing, pooling, resolve

# Where modules are imported from has moved; the old place is the one that all versions have.
pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
OWN = {name: recipe for name, (_, recipe) in {**FORMS, **OTHERS}.items()}
# None of four tokens: Funnel's class fails where it shortens one to a single state.
TEXTS = [" ".join(WORDS[start : start + 5 + start]) for start in range(3)]
TEXTS += ["the [SEP] cat and a dog", "the flight was late " * 150]  # more than is read here
SECOND = [*TEXTS[2:4], "a mat on a mat", *TEXTS[:2]]
CODE = "modeling_head_to_head.py"


class Case(NamedTuple):
    """A head and what it is exported as; `back` is its recipe as the export has it, if another."""

    target: str
    recipe: str
    family: str = "bert"
    data: str = "classes"
    back: str = ""


FAST = [
    *(Case("native", OWN[name], name) for name in ("gpt2", "roberta", "bart", "reformer")),
    *(Case("native", "cls+bert", data=data) for data in ("pairs", "labels", "numbers")),
    Case("native", "cls+bert?loss=ovr"),
    Case("native", "cls+roberta", back="cls+bert"),
    Case("native", "cls+bert?without=dropout", back="cls+bert"),
    Case("native", "mean+modernbert?activation=relu&bias=true&dropout=0.3", "modernbert"),
    *(Case("native", f"cls+bert?tune={tune}", back="cls+bert") for tune in ("full", "lora")),
    Case("code", "attention+roberta"),
    *(Case("code", "mean+linear", data=data) for data in ("pairs", "labels")),
    Case("code", "cls+bert?pair=uv_diff", data="pairs"),
    *(Case("code", recipe) for recipe in ("mean+mlp?tune=last1", "mean+ridge?tune=setfit")),
    Case("sentences", "mean_max+linear"),
    Case("sentences", "mean+modernbert", back="mean+modernbert?norm_bias=true"),
    *(Case("sentences", f"mean{two}", data="pairs") for two in ("+linear", "@1+linear?pair=uv")),
    Case("sentences", "mean+linear", data="pairs of numbers"),
    Case("onnx", "flatten+knn?k=3"),
    Case("adapter", "pooler+linear?tune=lora4"),
    Case("adapter", "last+gpt2?tune=lora", "gpt2"),
]
SLOW = [
    *(Case("native", recipe, name) for name, recipe in OWN.items()),
    *(Case("native", recipe, back="cls+bert") for recipe in ("cls+xlnet", "pooler+linear")),
    Case("native", "pooler+logistic", back="cls+bert"),
    Case("native", "cls+bert?tune=setfit", back="cls+bert"),
    *(Case("code", recipe) for recipe in ("mean+knn", "mean@mix+mlp")),
    *(Case("code", f"mean+linear?{option}") for option in ("late=true", "long=windows&stride=4")),
    *(Case("code", f"mean+mlp?{option}") for option in ("hidden=8&without=hidden", "tune=lora")),
    Case("code", "mean+linear", data="numbers"),
    *(Case("sentences", f"{name}+linear") for name in ("cls", "max", "mean", "sqrt_mean")),
    *(Case("sentences", f"{name}+linear") for name in ("weighted", "cls_mean")),
    *(Case("sentences", recipe) for recipe in ("last+gpt2", "cls+roberta", "mean+electra")),
    *(Case("sentences", f"mean+{name}") for name in ("mlp", "norm_linear", "dense_linear")),
    *(Case("sentences", f"mean+{name}") for name in ("mlp?activation=sigmoid", "linear?loss=ovr")),
    *(Case("sentences", "mean+linear", name) for name in ("gpt2", "distilbert", "roberta")),
    *(
        Case("sentences", recipe, back=back)
        for recipe, back in {
            "mean+linear?normalise=true": "",
            "trained+linear": "mean+linear?normalise=true",  # as the base model was trained
            "pooler+linear": "trained+linear",
            "cls+bert": "cls+roberta",
            "mean+cosine": "mean+gpt2?normalise=true",
            "mean+cosine_margin": "mean+gpt2?normalise=true",
            "mean+lda": "mean+linear",
            "mean+linear?prefix=it_was:_": "trained+linear",
            "mean+linear?include_prefix=false&prefix=it_was:_": "trained+linear",
            "last+linear?late=true": "last+linear",
        }.items()
    ),
    *(Case("sentences", "mean+linear", data=data) for data in ("labels", "numbers")),
    Case("sentences", "cls+bert", data="pairs"),
    Case("onnx", "mean_content@mix+eurobert?late=true"),
    *(Case("onnx", recipe, name) for name, recipe in OWN.items() if name in ("gpt2", "bart")),
    *(Case("onnx", "mean+linear", data=data) for data in ("pairs", "labels", "numbers")),
    *(Case("onnx", f"mean+linear?pair={name}", data="pairs") for name in ("prod", "uv_diff")),
    *(Case("onnx", f"mean+linear?{option}") for option in ("loss=ovr", "tune=lora")),
    Case("onnx", "cls+bert?tune=full"),
    *(
        Case("adapter", f"{OWN[name].partition('?')[0]}?tune=lora", name)
        for name in ("bert", "roberta", "distilbert", "electra", "modernbert", "xlnet", "bart")
    ),
]
CASES = slow.but(dict.fromkeys([*FAST, *SLOW]), *FAST)


@pytest.fixture(scope="module")
def base(tiny, tmp_path_factory) -> Callable[[str], Backbone]:
    """A tiny base model of a family."""
    made = dict[str, Path]()

    def folder(name: str) -> Path:
        # Those of GPT-2 and T5 have another token that pads or ends a text than their tokenizers.
        if name in FAMILIES and name not in ("gpt2", "t5"):
            return tiny(name)
        place = tmp_path_factory.mktemp("base")
        return made.get(name) or made.setdefault(name, write_classifier(place / name, name))

    return lambda name: load(str(folder(name)))


def corpus_of(data: str, rows: Corpus, recipe: str) -> Corpus:
    """The sixty made-up texts, none of two words, with another kind of labels."""
    texts = [f"{text} and late" for text in rows.texts]
    second = [*texts[7:], *texts[:7]]
    if data == "pairs":
        longer = [("x", "y")[len(a) > len(b)] for a, b in zip(texts, second, strict=True)]
        return build("pairs", texts, longer, second)
    if data == "labels":
        return build("many", texts, [("", "a", "b", "a|b")[len(one) % 4] for one in texts])
    if data.endswith("numbers"):
        values = [float(len(one)) for one in texts]
        return numbered("lengths", texts, values, second if "pairs" in data else ())
    found = build("made up", texts, rows.labels)
    return in_order(found, found.classes) if resolve(recipe).head.ordered else found


def train(case: Case, backbone: Backbone, rows: Corpus) -> Classifier:
    """Train the head of a case; that of several labels as a run tunes it."""
    config = TUNED if "tune=" in case.recipe else QUICK
    [ours] = classifiers([case.recipe], corpus_of(case.data, rows, case.recipe), backbone, config)
    if config is TUNED:  # else the answers of a base model that learned nothing would pass
        wanted = ours.logits(TEXTS[:3])
        with torch.no_grad():
            frozen = ours.head.module(backbone.states(backbone.encode(TEXTS[:3])))
        assert float((frozen - wanted).abs().max() / wanted.abs().max()) > 1e-3
    if case.data == "labels":  # thresholds below the logits of one text
        middle = ours.logits(TEXTS).topk(2, dim=0).values.mean(dim=0).tolist()
        tuned = replace(ours.head, thresholds=tuple(middle), temperature=1.75)
        return Classifier(backbone=backbone, head=tuned)
    return ours


def second_of(classifier: Classifier) -> list[str]:
    return SECOND if classifier.head.needs_pairs else []


# --- What others answer, by their own code.


class Others(NamedTuple):
    """What others make of an export: logits of texts and second texts, and facts."""

    logits: Callable[[Sequence[str], Sequence[str]], Tensor]
    classes: tuple[str, ...]
    problem_type: str = ""


def ask_model(model: Any, folder: Path, classifier: Classifier) -> Others:
    side = family_of(classifier.backbone.model_type).sides_of(
        classifier.head.module.reader.resolved
    )[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side=side)
    facts = transformers.AutoConfig.from_pretrained(folder)

    def logits(*given: Sequence[str]) -> Tensor:
        tokens = tokenizer(*map(list, filter(None, given)), padding=True, truncation=True,
                           split_special_tokens=True, return_tensors="pt")  # fmt: skip
        with quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            return model.eval()(**tokens).logits

    classes = tuple(facts.id2label[number] for number in sorted(facts.id2label))
    return Others(logits, classes, facts.problem_type)


def ask_transformers(folder: Path, classifier: Classifier) -> Others:
    with quiet():
        model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, output_loading_info=True
        )
    assert not any(report.values())
    return ask_model(model, folder, classifier)


def ask_peft(folder: Path, classifier: Classifier) -> Others:
    from peft import PeftModel

    with quiet():
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            classifier.backbone.folder, num_labels=3, ignore_mismatched_sizes=True
        )
        return ask_model(PeftModel.from_pretrained(model, str(folder)), folder, classifier)


def ask_sentence_transformers(folder: Path, classifier: Classifier) -> Others:
    from sentence_transformers import CrossEncoder, SentenceTransformer

    if classifier.head.needs_pairs:
        both = CrossEncoder(str(folder), device="cpu")  # of a class that is registered here

        def read_pairs(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
            found = both.predict(list(zip(texts, pairs, strict=True)), convert_to_tensor=True)
            return found.reshape(len(texts), -1)

        return Others(read_pairs, classifier.classes)
    alone = SentenceTransformer(str(folder), device="cpu")

    def read(texts: Sequence[str], _: Sequence[str]) -> Tensor:
        found = alone.encode(list(texts), output_value=None, show_progress_bar=False)
        return torch.stack([one[trained_reading.LOGITS] for one in found])

    return Others(read, classifier.classes)


def ask_onnxruntime(path: Path, classifier: Classifier) -> Others:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map

    def read(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        given = {name: t.numpy() for name, t in onnx.inputs(classifier, texts, pairs).items()}
        assert given.keys() == {one.name for one in session.get_inputs()}
        return torch.from_numpy(session.run(["logits"], given)[0])

    return Others(read, tuple(json.loads(facts["classes"])), facts["problem_type"])


ASK = {
    "native": ask_transformers,
    "code": ask_transformers,
    "adapter": ask_peft,
    "sentences": ask_sentence_transformers,
    "onnx": ask_onnxruntime,
}


def write(case: Case, classifier: Classifier, path: Path) -> Any:
    """Export a classifier as its case wants it; return the report."""
    if case.target == "onnx":
        return onnx.write_onnx(classifier, path)
    library = LIBRARY if case.target == "sentences" else ""
    return export(classifier, path, library=library, adapter=case.target == "adapter")


def skip_without(case: Case) -> None:
    for name in onnx.PACKAGES if case.target == "onnx" else ():
        pytest.importorskip(name, reason=f"{name} is not installed (pip install -e .[onnx])")
    if "setfit" in case.recipe:
        pytest.importorskip("setfit", reason="setfit is not installed (pip install -e .[setfit])")


@pytest.mark.parametrize(("target", "recipe", "family", "data", "back"), CASES)
def test_an_export_answers_as_its_head(target, recipe, family, data, back, base, rows, tmp_path):
    case = Case(target, recipe, family, data, back)
    skip_without(case)
    backbone = base(family)
    before = {name: own.clone() for name, own in backbone.model.state_dict().items()}
    ours, path = train(case, backbone, rows), tmp_path / ("mine.onnx" * (target == "onnx") or "out")
    report = write(case, ours, path)
    gain = rounding_gain(ours)  # large weights multiply rounding
    close = {"rtol": 1e-5, "atol": (5e-5 if target == "sentences" else 1e-5) * gain}
    assert report.difference <= close["atol"]
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    after = backbone.model.state_dict()
    assert all(torch.equal(after[name], own) for name, own in before.items())

    second = second_of(ours)
    wanted = ours.logits(TEXTS, second)
    assert float(wanted.std(dim=0).max()) > 1e-6, "every text got the same logits"
    others = ASK[target](path, ours)
    kind = ours.head.problem.name if target == "onnx" else export_type(ours)
    assert (others.classes, others.problem_type or kind) == (ours.classes, kind)
    for row in range(len(TEXTS)):
        alone = others.logits(TEXTS[row : row + 1], second[row : row + 1])
        torch.testing.assert_close(alone, wanted[row : row + 1], **close)
    # Neither GPT-2 under an adapter nor its ONNX file has a padding token.
    if not (backbone.reads_padding or (family == "gpt2" and target in ("adapter", "onnx"))):
        torch.testing.assert_close(others.logits(TEXTS, second), wanted, **close)

    if target == "onnx":
        return
    check_folder(case, report, tmp_path)
    if target != "adapter":
        check_loaded(case, ours, report)


def export_type(classifier: Classifier) -> str:
    """The problem type as Transformers has it: its pipeline asks each class of a vote alone."""
    name = classifier.head.problem.name
    is_vote = classifier.head.problem.output_activation == "normalised_sigmoid"
    return "multi_label_classification" if is_vote else name


def check_folder(case: Case, report: Any, tmp_path: Path) -> None:
    """A folder has a card that loads it, and names no place of this machine; all may read it."""
    files = {path.relative_to(report.folder).as_posix(): path for path in report.folder.rglob("*")}
    assert set(report.files) <= set(files)
    assert len({files[name].stat().st_mode for name in report.files}) == 1
    assert not [name for name in report.files if name.endswith((".pkl", ".bin"))]
    assert (CODE in report.files) is ("trust_remote_code=True" in report.usage)
    if case.data == "pairs" and case.target in ("native", "code"):
        assert '"text_pair": ' in report.usage
    card = files["README.md"].read_text("utf-8")
    assert report.usage in card
    assert ("custom_code" in card) is (CODE in report.files)
    for name in report.files:
        if name.endswith((".json", ".md")):
            assert str(tmp_path) not in files[name].read_text("utf-8")
    assert report.native is (case.target in ("native", "adapter"))


def check_loaded(case: Case, ours: Classifier, report: Any) -> None:
    """A folder comes back with its recipe, its labels, its thresholds and its answers."""
    second = second_of(ours)
    back = heads.load(report.folder)
    assert str(back.recipe) == (case.back or str(ours.recipe))
    assert (back.classes, back.head.problem) == (ours.classes, ours.head.problem)
    assert not back.head.new
    assert back.head.thresholds == pytest.approx(ours.head.thresholds, abs=1e-5)
    assert back.predict(TEXTS, second) == ours.predict(TEXTS, second)
    torch.testing.assert_close(
        back.probabilities(TEXTS, second), ours.probabilities(TEXTS, second), rtol=1e-4, atol=1e-5
    )


# --- In a process that knows nothing of this package.

CODE_RECIPES = [
    *(f"{name}+linear" for name in pooling if name != "cls"),
    *(f"mean+{name}" for name in head),
    *(f"mean@{name}+linear" for name in layers if name != "decoder"),
    *(f"mean+linear?pair={name}" for name in pairing),
    *("mean@0+linear", "attention@mix+linear?queries=3", "cls@mean4+bert", "trained+roberta"),
    *("mean+eurobert?late=true", "attention+mlp?late=true", "flatten+linear?length=3"),
    *("mean+linear?normalise=true", "mean+mlp?without=hidden", "mean+linear?loss=ovr"),
    *("mean+linear?prefix=query:_", "mean_content+linear?prefix=query:_&include_prefix=false"),
    *("mean+linear?long=windows&stride=4", "cls+linear?long=windows&stride=4"),
    *("trained+linear?long=windows", "max@cat4+ridge?long=windows&normalise=true"),
]
CODE_CASES = [
    Case("code", recipe, data="pairs" if "pair=" in recipe else "classes")
    for recipe in CODE_RECIPES
]
FAMILY_CASES = {
    name: [Case("code", one, name, "pairs" if "pair=" in one else "classes") for one in recipes]
    for name, recipes in {
        "gpt2": ("mean+mlp", "weighted+linear?pair=diff", "last+linear?long=windows&stride=4"),
        "t5": ("mean@mix+linear", "mean@decoder+linear"),
        "roberta": ("mean+roberta", "mean_content@mix+linear", "mean+linear?pair=uv_diff"),
        "modernbert": ("mean+linear", "mean+linear?prefix=query:_"),
        "bart": ("mean+linear", "mean@decoder+linear"),
        "xlnet": ("mean+linear", "max+mlp"),
        "deberta-v2": ("mean+linear", "mask_token+linear"),
    }.items()
}
GROUPS = {
    "code": [*CODE_CASES[::16], *FAMILY_CASES.pop("gpt2"), *FAMILY_CASES.pop("t5")],
    **{f"code {part}": CODE_CASES[part::4] for part in (1, 2, 3)},
    "code 4": [*CODE_CASES[4::8], *CODE_CASES[8::16]],
    "families": [case for cases in FAMILY_CASES.values() for case in cases],
    "tuned": [
        Case("native", "cls+bert?tune=full"),
        *(Case(target, "cls+bert?tune=lora") for target in ("native", "adapter")),
        *(Case("code", f"mean+{one}") for one in ("linear?tune=lora", "mlp?tune=last1")),
        *(
            Case("onnx", f"{one}+linear?tune={how}")
            for one, how in (("cls", "full"), ("mean", "lora"))
        ),
    ],
    "sentences": [
        *(Case("sentences", recipe) for recipe in ("mean+mlp", "mean+norm_linear", "cls+linear")),
        *(Case("sentences", f"{one}+linear", data="pairs") for one in ("mean", "std")),
        *(Case("sentences", f"mean+{one}", data="pairs") for one in ("knn", "linear?pair=uv_diff")),
    ],
    "onnx": [
        *(Case("onnx", "mean+linear", data=data) for data in ("classes", "pairs", "labels")),
        Case("onnx", "mean_content+mlp?pair=prod", data="pairs"),
    ],
}


@pytest.mark.parametrize("group", slow.but(GROUPS, "code"))
def test_a_process_without_this_package_gives_the_same(group, base, rows, tmp_path):
    asked, questions = list[tuple[Case, Classifier]](), list[Any]()
    for number, case in enumerate(GROUPS[group]):
        skip_without(case)
        ours = train(case, base(case.family), rows)
        path = tmp_path / (f"{number}.onnx" if case.target == "onnx" else str(number))
        report = write(case, ours, path)
        if case.target == "code" and report.native:  # the contract above has its row
            continue
        if case.target == "adapter":  # its card names the base model
            (tmp_path / Path(ours.backbone.id).name).symlink_to(ours.backbone.folder)
        what = report.usage if case.target == "onnx" else str(path)
        questions.append((case.target, what, [TEXTS, *filter(None, [second_of(ours)])]))
        asked.append((case, ours))
    told = read_alone(questions, tmp_path)
    for (case, ours), (found, answers) in zip(asked, told, strict=True):
        check_alone(case, ours, found, answers)


def check_alone(case: Case, ours: Classifier, found: Any, answers: Any) -> None:
    """Compare what another process answers of an export with what its head does."""
    texts, second = USAGE_TEXTS if case.target == "onnx" else (TEXTS, SECOND)
    asked = (texts, second) if ours.head.needs_pairs else (texts,)
    wanted, gain = ours.logits(*asked), rounding_gain(ours)
    assert float(wanted.std(dim=0).max()) > 1e-6, "every text got the same logits"
    close = {"atol": (5e-5 if case.target == "sentences" else 5e-6) * gain, "rtol": 1e-5}
    for logits in found:
        torch.testing.assert_close(torch.tensor(logits), wanted, msg=str(case), **close)
    if case.target == "sentences" and answers:  # the vectors, which stay what they were
        reader = ours.head.module.reader
        vectors = torch.zeros(len(TEXTS), reader.width)
        for rows, states in ours.backbone.passes(ours.backbone.encode(TEXTS), layers=reader.depths):
            vectors[rows] = reader(states).vectors
        torch.testing.assert_close(torch.tensor(answers), vectors, **close)
    elif answers:
        predicted = ours.predict(*asked)
        labels = [list(one) if isinstance(one, tuple) else one for one in predicted]
        assert answers == (str(labels) if case.target == "onnx" else predicted)


OTHER_PYTHON = "HEADS_SENTENCE_TRANSFORMERS_5"  # names a Python with a sentence-transformers 5.x
FOLDERS = Path(__file__).parents[2] / "studies" / "peer_scripts" / "sentence_folders.py"


@pytest.mark.slow
@pytest.mark.skipif(OTHER_PYTHON not in os.environ, reason=f"{OTHER_PYTHON} names no Python")
def test_a_library_before_the_sixth_gives_the_same(backbone, rows, tmp_path):
    """With the bundled model, for such a library may come with a Transformers before the fifth,
    which does not know how the tiny one's tokenizer is written."""
    recipes = ("mean_max+linear", "mean+modernbert", "pooler+linear", "cls+roberta", "mean+cosine")
    cases = [Case("sentences", recipe) for recipe in recipes]
    cases += [Case("sentences", "cls+bert", data="pairs")]
    ours = [train(case, backbone, rows) for case in cases]
    questions = []
    for number, (case, one) in enumerate(zip(cases, ours, strict=True)):
        write(case, one, tmp_path / str(number))
        path = str(tmp_path / str(number))
        questions.append({"path": path, "texts": TEXTS, "pairs": second_of(one)})
    lines = json.dumps({"folders": questions, "write": ""})
    command = [*os.environ[OTHER_PYTHON].split(), str(FOLDERS)]
    told = json.loads(run_alone(command, lines, tmp_path))
    assert told["version"].startswith("5.")
    for case, answer, one in zip(cases, told["answers"], ours, strict=True):
        if case.data == "classes" and int(told["version"].split(".")[1]) < 4:
            assert "error" in answer  # docs/folders.md says so
            continue
        wanted = one.logits(TEXTS, second_of(one))
        torch.testing.assert_close(torch.tensor(answer["logits"]), wanted, rtol=1e-5, atol=5e-5)
