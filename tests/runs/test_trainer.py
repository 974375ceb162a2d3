"""One head is trained as in a run: to the last bit, whatever runs beside it, and no better."""

import csv
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import slow
import torch
from loops import collect
from quick_heads import QUICK, trained
from scipy.stats import spearmanr
from tiny_models import save_tiny
from tolerances import assert_same_training
from torch import Tensor

import heads as public
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier import head_cache
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import HeadInputs
from heads.classifier.module import TrainedHead, assemble
from heads.data.corpus import Corpus, build, in_order, numbered
from heads.data.dataset import corpus_of
from heads.data.samples import SAMPLES
from heads.data.table import Columns
from heads.errors import DataError, LimitError, RecipeError
from heads.evaluation.statistics import wilson
from heads.events import Progress, result
from heads.interpret.differences import difference
from heads.interpret.explanation import explain
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, ONE_VERSUS_REST, SINGLE_LABEL
from heads.runs.trainer import first_split, fit, train
from heads.settings import PUBLIC, ExperimentConfig, Limits, use_limits

LONG = replace(QUICK, learning_rate=0.01, steps=200)
SHOULD_REPEAT = ("mean+linear", "cls+roberta", "attention+linear", "mean@mix+mlp", "mean+logistic")


def logits(head: TrainedHead, backbone: Backbone, texts: Sequence[str]) -> Tensor:
    with torch.no_grad():
        return head.module(backbone.states(backbone.encode(texts)))


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Does some work over and over in another thread."""
    stop, ready = threading.Event(), threading.Event()

    def loop() -> None:
        while not stop.is_set():
            work()
            ready.set()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        stop.set()
        thread.join()


# The head of a run


def written(place: Path, corpus: Corpus, split: bool) -> Path:
    """The rows as a file; of those in a split every fourth is a test row."""
    path = place / "rows.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["text", "second", "label", *["split"] * split])
        for row, text in enumerate(corpus.texts):
            second = corpus.pairs[row] if corpus.pairs else ""
            names = "|".join(corpus.classes[target] for target in corpus.targets[row])
            label = corpus.numbers[row] if corpus.numbers else names
            out.writerow([text, second, label, *[("train", "test")[row % 4 == 0]] * split])
    return path


def is_same_head(one: TrainedHead, other: TrainedHead) -> bool:
    """Up to rounding: on some processors a product's last bit goes by how many are in its batch."""
    mine, theirs = one.module.state_dict(), other.module.state_dict()
    facts = ("recipe", "classes", "chosen", "rows", "training")
    return (
        mine.keys() == theirs.keys()
        and all(torch.allclose(mine[name], theirs[name], atol=1e-4) for name in mine)
        and one.temperature == pytest.approx(other.temperature, rel=1e-4)
        and one.thresholds == pytest.approx(other.thresholds, rel=1e-4)
        and all(getattr(one, name) == getattr(other, name) for name in facts)
    )


KINDS = {
    "classes": (["mean+linear", "cls+roberta", "mean+ridge", "attention+linear", "mean+knn"], {}),
    "test": (["mean+linear", "mean@mix+mlp"], {"seeds": 2}),
    "weights": (["mean+linear", "cls+bert"], {"class_weights": True, "folds": 3, "seed": 4}),
    "fixed": (["mean+roberta", "attention+linear"], {"learning_rate": 0.01, "steps": 9}),
    "labels": (["mean+linear", "mean+roberta"], {"folds": 3}),
    "numbers": (["mean+linear", "mean+roberta", "attention+linear"], {}),
    "pairs": (["mean+linear?pair=uv_diff", "cls+roberta", "mean+mlp?pair=diff"], {"folds": 3}),
}


@pytest.mark.parametrize("kind", slow.but_each(3, KINDS))
def test_a_head_by_itself_is_the_one_that_a_grid_keeps(
    kind: str, rows: Corpus, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    recipes, more = KINDS[kind]
    config = ExperimentConfig(curve=False, **more)
    if kind == "labels":
        labels = [("x", "y", "x|z", "z")[row % 4] for row in range(len(rows))]
        rows = build("many", rows.texts, labels)
    elif kind == "numbers":
        rows = numbered("numbers", rows.texts, [float(len(text)) for text in rows.texts])
    elif kind == "pairs":
        rows = replace(rows, pairs=rows.texts[::-1])
    columns = Columns(
        text="text",
        label="label",
        pair="second" if rows.pairs else "",
        split="split" if kind == "test" else "",
        separator="|" if kind == "labels" else "",
        number=kind == "numbers",
    )
    model = str(tiny("bert"))
    data = public.read(written(tmp_path, rows, kind == "test"), columns, model=model)
    for recipe in recipes:
        board = public.train_grid(data, recipes=[recipe], model=model, config=config)
        one = public.train(recipe, data, model=model, config=config)
        (cell,) = (cell for cell in board.cells if "+" in cell.name)
        kept = board.classifier(cell.name)
        assert is_same_head(one.head, kept.head), recipe
        own = kept.head.scores.own
        assert one.head.scores.accuracy == pytest.approx(own), recipe
        assert one.head.fingerprint == kept.head.fingerprint


# Every row learned from

FITTED = {
    "mean+linear": {},
    "cls+roberta": {"seed": 3},
    "mean+knn": {},
    "attention+linear": {"class_weights": True},
    "mean@mix+mlp": {"learning_rate": 0.01, "steps": 9},
    "mean+linear?pair=uv_diff": {},
    "cls+linear?tune=last1": {"epochs": 1, "trials": 1},
    "mean+linear?tune=lora": {"epochs": 1, "trials": 1},
    "mean+linear?tune=lpft": {"epochs": 1, "trials": 1},
}


@pytest.mark.parametrize("recipe", slow.but_each(2, FITTED))
def test_a_head_of_every_row_is_the_one_that_is_scored_on_other_rows(
    recipe: str, small: Backbone, rows: Corpus
) -> None:
    config = ExperimentConfig(precision="exact", **FITTED[recipe])
    if "pair" in recipe:
        rows = replace(rows, pairs=rows.texts[::-1])
    learned = [row for row in range(len(rows)) if row % 4]
    scored = replace(rows, parts=tuple("train" if row % 4 else "test" for row in range(len(rows))))
    alone = build(
        "alone", [rows.texts[row] for row in learned], ["xyz"[row % 3] for row in learned]
    )
    alone = replace(alone, pairs=tuple(rows.pairs[row] for row in learned if rows.pairs))
    (wanted,) = trained([recipe], scored, small, config)
    found = result(fit(resolve(recipe), alone, small, config=config))
    found = found.raw or found  # `fit` calibrates what it returns
    assert (found.rows, found.scores) == (len(learned), None)
    assert wanted.scores is not None
    same = replace(found, training=wanted.training)
    assert is_same_head(same, wanted)
    if wanted.base is not None and found.base is not None:
        for name, tensor in wanted.base.tensors.items():
            torch.testing.assert_close(found.base.tensors[name], tensor, atol=1e-4, rtol=1e-3)


# The same numbers


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(
    small: Backbone, rows: Corpus
) -> None:
    once, again = (trained(SHOULD_REPEAT, rows, small) for _ in range(2))
    for one, other in zip(once, again, strict=True):
        assert one.scores == other.scores
        assert torch.equal(logits(one, small, rows.texts), logits(other, small, rows.texts))
    (other,) = trained(SHOULD_REPEAT[:1], rows, small, replace(QUICK, seed=1))
    assert not torch.equal(logits(once[0], small, rows.texts), logits(other, small, rows.texts))


def test_numbers_do_not_depend_on_the_recipes_beside(small: Backbone, rows: Corpus) -> None:
    together = trained(SHOULD_REPEAT, rows, small)
    for recipe, beside in zip(SHOULD_REPEAT, together, strict=True):
        (alone,) = trained([recipe], rows, small)
        assert_same_training(logits(alone, small, rows.texts), logits(beside, small, rows.texts))


def test_numbers_do_not_depend_on_the_state_of_torchs_dice(small: Backbone, rows: Corpus) -> None:
    torch.manual_seed(3)
    (one,) = trained(["mean+mlp"], rows, small)
    state = torch.get_rng_state()
    torch.manual_seed(4)
    (other,) = trained(["mean+mlp"], rows, small)
    assert torch.equal(logits(one, small, rows.texts), logits(other, small, rows.texts))
    torch.manual_seed(3)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("work", ["training", "recall", "explain", "difference", "load"])
def test_numbers_do_not_depend_on_other_work_at_the_same_time(
    small: Backbone, rows: Corpus, tmp_path: Path, work: str
) -> None:
    recipes = SHOULD_REPEAT if work == "training" else ["mean+roberta"]
    alone = trained(recipes, rows, small)
    kept = tmp_path / "head.safetensors"
    head_cache.save(alone[0], kept)
    folders = [str(save_tiny(tmp_path / name, "bert", "ForMaskedLM")) for name in ("a", "b")]
    jobs: dict[str, Callable[[], object]] = {
        "training": lambda: trained(["cls+mlp"], rows, small, replace(QUICK, seed=5)),
        "recall": lambda: head_cache.load(kept, small),
        "explain": lambda: explain(resolve("attention+linear"), small, classes=3),
        "difference": lambda: difference(
            resolve("attention+bert"), resolve("attention+mlp"), small
        ),
        "load": lambda: [load(folder) for folder in folders],
    }
    with meanwhile(jobs[work]):
        beside = trained(recipes, rows, small)
    for one, other in zip(alone, beside, strict=True):
        assert torch.equal(logits(one, small, rows.texts), logits(other, small, rows.texts))


# What is learned


def test_what_is_plain_to_see_is_learned(small: Backbone) -> None:
    texts = [f"{word} {filler}" for word in ("cat", "dog") for filler in "abcdefghijklmnop"]
    corpus = build("plain", texts, ["cat"] * 16 + ["dog"] * 16)
    longer = replace(QUICK, steps=100)
    for head in trained(["mean+linear", "mean+ridge", "attention+linear"], corpus, small, longer):
        assert head.scores.accuracy == 1.0


def test_the_pooler_head_starts_from_the_pretrained_pooler_and_others_do_not(
    backbone: Backbone, tiny: Callable[..., Path]
) -> None:
    bert = assemble(resolve("cls+bert"), backbone, 3, problem=SINGLE_LABEL)
    assert bert.pretrained == ("pooler.dense.weight", "pooler.dense.bias")
    started = bert.head.state_dict()
    for name, weight in backbone.pooler_weights.items():
        assert torch.equal(started[name], weight)
    for recipe in ("cls+roberta", "cls+xlnet", "cls+deberta", "cls_mean+bert", "cls@cat4+bert"):
        other = assemble(resolve(recipe), backbone, 3, problem=SINGLE_LABEL)
        assert other.pretrained == ()
        pooler = backbone.pooler_weights["pooler.dense.weight"]
        assert not any(
            torch.equal(weight, pooler)
            for weight in other.head.state_dict().values()
            if weight.shape == pooler.shape
        )
    lacking = load(str(tiny("bert", "ForMaskedLM")))
    assert assemble(resolve("cls+bert"), lacking, 3, problem=SINGLE_LABEL).pretrained == ()


def test_training_leaves_the_base_model_as_it_was(small: Backbone, rows: Corpus) -> None:
    before = {name: weight.clone() for name, weight in small.model.state_dict().items()}
    pooler = {name: weight.clone() for name, weight in small.pooler_weights.items()}
    (head,) = trained(["cls+bert"], rows, small, replace(QUICK, learning_rate=0.1))
    trained(["mean@mix+linear", "attention+bert", "pooler+linear"], rows, small)
    assert not torch.equal(
        head.module.head.state_dict()["pooler.dense.weight"], pooler["pooler.dense.weight"]
    )
    for name, weight in small.model.state_dict().items():
        assert torch.equal(weight, before[name])
    for name, weight in small.pooler_weights.items():
        assert torch.equal(weight, pooler[name])


def test_a_trained_head_is_ready_for_use_and_frozen(small: Backbone, rows: Corpus) -> None:
    for head in trained(SHOULD_REPEAT, rows, small):
        assert not head.module.training
        assert not any(weight.requires_grad for weight in head.module.parameters())
        assert head.parameters == sum(weight.numel() for weight in head.module.parameters())
        assert (head.trained_on, head.rows, head.classes) == ("made up", 48, ("x", "y", "z"))


def test_scores_are_those_of_rows_that_were_not_learned_from(small: Backbone, rows: Corpus) -> None:
    learned, held = first_split(rows, QUICK)
    assert not {*learned} & {*held}
    texts = [rows.texts[row] for row in held]
    truth = [rows.targets[row][0] for row in held]
    counts = [sum(rows.targets[row][0] == target for row in learned) for target in range(3)]
    for head in trained(["mean+linear", "attention+linear", "mean+knn"], rows, small):
        right = logits(head, small, texts).argmax(dim=1) == torch.tensor(truth)
        assert head.scores.accuracy == pytest.approx(float(right.float().mean()))
        assert head.scores.majority == truth.count(counts.index(max(counts))) / len(truth)
        assert (head.scores.rows, head.rows) == (len(held), len(learned))
        ends = wilson(head.scores.accuracy, len(held))
        assert (head.scores.low, head.scores.high) == pytest.approx(ends)
        assert (head.scores.among, head.scores.own) == (1, None)


# Events


def test_progress_goes_forward_and_ends_with_the_heads_in_order(
    small: Backbone, rows: Corpus
) -> None:
    recipes = ["mean+linear", "attention+linear", "mean+ridge", "cls+bert", "mean + linear"]
    new = build("new", [f"{text} mat" for text in rows.texts], ["xyz"[n % 3] for n in range(60)])
    work = train(list(map(resolve, recipes)), new, small, config=QUICK)
    told, heads = collect(work)
    assert all(isinstance(event, Progress) for event in told)
    shares = [event.share for event in told]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    wanted = ["mean+linear", "attention+linear", "mean+ridge", "cls+bert", "mean+linear"]
    assert [str(head.recipe).partition("?")[0] for head in heads] == wanted
    assert {event.says for event in told} >= {f"Trained {recipe}" for recipe in wanted}
    assert told[0].says.startswith("Encoding 60 texts with ")


@pytest.mark.parametrize("after", [1, 2, 3])
def test_breaking_off_leaves_nothing_locked(small: Backbone, rows: Corpus, after: int) -> None:
    events = train([resolve("mean+linear"), resolve("cls+roberta")], rows, small, config=QUICK)
    for _ in range(after):
        next(events, None)
    events.close()
    found: list[TrainedHead] = []
    thread = threading.Thread(
        target=lambda: found.extend(trained(["mean+linear"], rows, small)), daemon=True
    )
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    (undisturbed,) = trained(["mean+linear"], rows, small)
    assert torch.equal(logits(found[0], small, rows.texts), logits(undisturbed, small, rows.texts))


# Several labels a row


def test_several_labels_a_row_are_learned(backbone: Backbone) -> None:
    corpus = corpus_of(SAMPLES["aspects"])
    recipes = ["mean+linear", "mean+logistic", "mean+ridge", "mean+centroid"]
    for head in trained(recipes, corpus, backbone):
        assert head.problem is MULTI_LABEL
        assert 70 <= head.scores.rows <= 90
        assert head.scores.metric == "micro_f1"
        assert len(head.thresholds) == 6
        assert head.scores.low > head.scores.majority
        found = logits(head, backbone, ["It arrived late and costs too much.", "I like it."])
        assert found.shape == (2, 6)
        assert found.isfinite().all()


# Numbers


@pytest.fixture(scope="module")
def lengths() -> Corpus:
    """Texts and how many words they have, times a hundred: many where 'cat' stands often."""
    texts = ["cat " * count + "dog " * (7 - count) for count in range(8) for _ in range(8)]
    texts = [f"{text}{letter}" for text, letter in zip(texts, "abcdefgh" * 8, strict=True)]
    numbers = [100.0 * text.count("cat") + 1000.0 for text in texts]
    return numbered("lengths", texts, numbers, column="cats")


@pytest.mark.parametrize(
    "recipe",
    [
        "mean+linear", "mean+ridge", "mean+roberta", "mean+gpt2", "attention+linear",
        "mean+linear?late=true",
    ],
)  # fmt: skip
def test_numbers_are_learned_in_their_own_units(
    small: Backbone, lengths: Corpus, recipe: str
) -> None:
    (head,) = trained([recipe], lengths, small, LONG)
    assert head.problem.gives_number
    assert head.problem.output_activation == "none"
    assert head.classes == ("cats",)
    _, held = first_split(lengths, LONG)
    given = logits(head, small, [lengths.texts[row] for row in held])[:, 0]
    true = torch.tensor([lengths.numbers[row] for row in held])
    assert head.scores.accuracy == pytest.approx(spearmanr(given, true).statistic, abs=1e-6)
    assert (head.scores.metric, head.scores.rows) == ("spearman", len(held))
    assert head.scores.accuracy > 0.9
    assert head.scores.low > 0.5
    found = Classifier(backbone=small, head=head)
    assert torch.equal(found.probabilities(lengths.texts[:3]), found.logits(lengths.texts[:3]))
    ends = found.logits(lengths.texts[:3])[:, 0].tolist()
    assert found.predict(lengths.texts[:3]) == ends
    # The numbers lie from 1000 to 1700; always their mean is 200 off.
    assert float((given - true).abs().mean()) < 80


# Two texts, each by itself


@pytest.fixture(scope="module")
def pairs(rows: Corpus) -> Corpus:
    """Each text with itself, or with another one: whether they are the same."""
    other = (*rows.texts[7:], *rows.texts[:7])
    same = [row % 2 == 0 for row in range(len(rows))]
    seconds = [one if yes else two for one, two, yes in zip(rows.texts, other, same, strict=True)]
    return build("pairs", rows.texts, ["same" if yes else "other" for yes in same], seconds)


@pytest.mark.parametrize("top", ["linear", "mlp", "ridge", "logistic?loss=ovr"])
def test_siamese_heads_see_that_two_texts_are_the_same(
    small: Backbone, pairs: Corpus, top: str
) -> None:
    sign = "&" if "?" in top else "?"
    recipes = [f"mean+{top}{sign}pair=diff", f"mean+{top}"]
    apart, _ = heads = trained(recipes, pairs, small, LONG)
    assert apart.scores.accuracy > 0.9
    assert apart.module.is_siamese
    _, held = first_split(pairs, LONG)
    texts, seconds = ([side[row] for row in held] for side in (pairs.texts, pairs.pairs))
    truth = torch.tensor([pairs.targets[row][0] for row in held])
    for head in heads:
        found = Classifier(backbone=small, head=head).logits(texts, seconds)
        right = float((found.argmax(dim=1) == truth).float().mean())
        assert head.scores.accuracy == pytest.approx(right)


# Other losses


@pytest.mark.parametrize("recipe", ["mean+linear", "attention+linear", "mean+logistic"])
def test_one_versus_the_rest_puts_its_questions_to_a_vote(
    small: Backbone, rows: Corpus, recipe: str
) -> None:
    usual, rest = trained([recipe, f"{recipe}?loss=ovr"], rows, small)
    assert (usual.problem, rest.problem) == (SINGLE_LABEL, ONE_VERSUS_REST)
    assert not torch.equal(logits(usual, small, rows.texts), logits(rest, small, rows.texts))
    found = Classifier(backbone=small, head=rest)
    shares, raw = found.probabilities(rows.texts), found.logits(rows.texts)
    torch.testing.assert_close(shares, raw.sigmoid() / raw.sigmoid().sum(dim=1, keepdim=True))
    best = [rows.classes[place] for place in raw.argmax(dim=1).tolist()]
    assert found.predict(rows.texts) == best


@pytest.mark.parametrize("recipe", ["mean+linear", "cls+bert", "cls+roberta", "mean+mlp"])
def test_what_learned_from_standardised_vectors_reads_them_as_they_are(
    small: Backbone, rows: Corpus, recipe: str
) -> None:
    usual, standard = trained([recipe, f"{recipe}?standardise=true"], rows, small)
    assert usual.module.head.state_dict().keys() == standard.module.head.state_dict().keys()
    assert usual.scores is not None
    assert standard.scores is not None
    assert not torch.equal(logits(usual, small, rows.texts), logits(standard, small, rows.texts))
    assert SINGLE_LABEL.chosen(logits(standard, small, rows.texts)).any(dim=0).sum() > 1


def test_a_text_is_asked_with_the_prompt_that_its_head_has_learned_with(
    small: Backbone, rows: Corpus
) -> None:
    plain, asked = trained(["mean+linear", "mask_token+logistic"], rows, small)
    found = Classifier(backbone=small, head=asked).logits(rows.texts)
    torch.testing.assert_close(found, logits(asked, small.prompted("It_was"), rows.texts))
    given = HeadInputs(small, rows.texts)
    torch.testing.assert_close(given.logits(asked), found, rtol=1e-4, atol=1e-4)
    usual = logits(plain, small, rows.texts)
    torch.testing.assert_close(given.logits(plain), usual, rtol=1e-4, atol=1e-4)


def test_a_margin_is_there_in_training_and_not_in_use(small: Backbone, rows: Corpus) -> None:
    names = ["mean+cosine_margin?margin=0", "mean+cosine_margin?margin=0.5"]
    without, head = trained(names, rows, small)
    assert not torch.equal(logits(without, small, rows.texts), logits(head, small, rows.texts))
    assert (logits(head, small, rows.texts).abs() <= 20.001).all()


def test_heads_for_an_order_learn_from_classes_in_an_order(small: Backbone, rows: Corpus) -> None:
    ordered = in_order(rows, ["z", "x", "y"])
    recipes = ["mean+linear", "mean+linear?loss=ordinal", "mean+proportional_odds"]
    usual, ordinal, thresholds = trained(recipes, ordered, small)
    assert ordinal.problem.output_activation == "softmax"
    assert not torch.equal(logits(usual, small, rows.texts), logits(ordinal, small, rows.texts))
    shares = logits(thresholds, small, rows.texts).exp().sum(dim=1)
    torch.testing.assert_close(shares, torch.ones(len(shares)))


# Refusals


@pytest.mark.parametrize(
    ("recipe", "labels", "error"),
    [
        ("mean+proportional_odds", "", DataError),  # without an order
        ("mean+linear?loss=ordinal", "", DataError),
        ("mean+linear?pair=uv", "", DataError),  # one text a row
        ("mean+knn", "x|y", RecipeError),
        ("mean@9+linear", "", RecipeError),
    ],
)
def test_a_recipe_that_does_not_fit_the_rows_is_refused(
    small: Backbone, rows: Corpus, recipe: str, labels: str, error: type[Exception]
) -> None:
    corpus = build("many", rows.texts, [labels, "z"] * 30) if labels else rows
    with pytest.raises(error):
        trained(["mean+linear", recipe], corpus, small)


def test_a_head_that_is_too_large_is_refused_without_memory(
    backbone: Backbone, rows: Corpus, seconds: Callable[[], float]
) -> None:
    with pytest.raises(LimitError) as refused:
        trained(["mean+linear", "flatten+roberta"], rows, backbone)
    width = 32 * 384
    size = width * width + width + width * 3 + 3
    assert refused.value.what.startswith(f"flatten+roberta would have {size:,} parameters")
    assert "flatten+linear" in refused.value.hint
    # 3.8 GB, were they asked for.
    size = 600 * 384 * 4096 + 4096 + 4096 * 3 + 3
    with pytest.raises(LimitError, match=f"{size:,} parameters"):
        trained(["flatten+mlp?length=600&hidden=4096"], rows, backbone)
    assert seconds() < 3
    with use_limits(Limits(head_parameters=100)), pytest.raises(LimitError):
        trained(["cls+roberta"], rows, backbone)


def test_the_width_that_a_head_reads_is_limited_too(backbone: Backbone) -> None:
    # 420 rows of it are 2.6 GB.
    for recipe in ("flatten+linear?length=4096", "attention+linear?queries=4096"):
        for limits in (Limits(), PUBLIC):
            says = "would read 1,572,864 numbers a text"
            with use_limits(limits), pytest.raises(LimitError, match=says):
                assemble(resolve(recipe), backbone, 3, problem=SINGLE_LABEL)


# Scores


@pytest.mark.parametrize(
    ("right", "rows_", "low", "high"),
    [
        # Newcombe 1998, table 1, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_the_interval_has_the_published_values(
    right: int, rows_: int, low: float, high: float
) -> None:
    assert wilson(right / rows_, rows_) == pytest.approx((low, high), abs=5e-5)
