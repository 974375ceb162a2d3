"""What-ifs: nearest training examples, edits, temperature, a layer taken out; and who is asked."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loops import collect
from quick_heads import QUICK, classifiers
from torch.nn.functional import normalize

import heads as public
from heads.classifier.calibration import calibrate
from heads.data.corpus import build
from heads.errors import DataError, LimitError, RecipeError
from heads.events import Progress
from heads.inference.selection import HeadRequest, SelectedHeads, select_heads
from heads.interpret.ablation import ablate_layers, find_layers, kind_of, remove_layer
from heads.interpret.counterfactuals import Counterfactual, Counterfactuals, compare_edits, pieces
from heads.interpret.neighbors import find_neighbours
from heads.interpret.outputs import HeadOutput, read_output, tempered_probabilities
from heads.problem import MULTI_LABEL, ONE_VERSUS_REST, REGRESSION, SINGLE_LABEL
from heads.runs.trainer import first_split

RECIPES = ("cls+roberta", "attention+linear", "mean+mlp", "cls+bert", "mean+modernbert")
PAIRED = ("mean+linear", "mean+linear?pair=uv_diff")


def trained(backbone, rows, recipes):
    return tuple(classifiers(recipes, rows, backbone))


@pytest.fixture(scope="module")
def asked(small, rows):
    found = trained(small, rows, RECIPES)
    return SelectedHeads(
        classifiers=found, corpus=rows, split_rows=lambda: first_split(rows, QUICK)
    )


def result(events):
    told, found = collect(events)
    assert all(isinstance(event, Progress) for event in told)
    return found


def test_a_training_example_is_nearest_to_itself(asked):
    for one in result(find_neighbours(asked, asked.corpus.texts[asked.learned[7]], most=3)):
        best = one.neighbours[0]
        assert best.text == asked.corpus.texts[asked.learned[7]]
        assert best.labels == (asked.corpus.classes[asked.corpus.targets[asked.learned[7]][0]],)
        assert best.similarity == pytest.approx(1, abs=1e-5)
        assert one.searched == len(asked.learned)
        same = [n for n in one.neighbours if n.labels == (one.answer,)]
        assert one.says.startswith(f"{len(same)} of the 3 nearest")
        assert one.says.endswith("The text itself is among them: its neighbours explain little.")
        assert [n.is_same for n in one.neighbours] == [True, False, False]


def test_examples_of_equal_text_and_labels_are_one_neighbour(small, rows):
    repeated = [row for row in range(20) for _ in range(3)]  # each of twenty texts thrice
    texts = [rows.texts[row] + " " * n for n, row in enumerate(repeated)]  # and with other spaces
    names = [rows.classes[rows.targets[row][0]] for row in repeated]
    corpus = build("repeated", texts, names)
    found = trained(small, corpus, RECIPES)
    asked = SelectedHeads(
        classifiers=found, corpus=corpus, split_rows=lambda: (tuple(range(60)), ())
    )
    for one in result(find_neighbours(asked, "it was not there", most=5)):
        assert [n.times for n in one.neighbours] == [3] * 5
        assert not any(n.is_same for n in one.neighbours)
        assert len({n.text.strip() for n in one.neighbours}) == 5
        assert one.neighbours[0].told.endswith(", 3 times")


def test_rows_that_were_not_learned_from_are_no_neighbours(asked):
    known = {asked.corpus.texts[row] for row in asked.learned}
    for one in result(find_neighbours(asked, asked.corpus.texts[asked.held[0]], most=40)):
        assert {n.text for n in one.neighbours} <= known


def test_neighbours_are_those_of_the_vectors_that_the_head_gets(asked):
    head = asked.classifiers[1]  # its reading is learned
    texts = ["the cat sat on a mat", *(asked.corpus.texts[row] for row in asked.learned)]
    with torch.no_grad():
        vectors = [
            head.head.module.vectors(head.backbone.states(head.backbone.encode([text])))[0]
            for text in texts
        ]
    similar = normalize(torch.stack(vectors), dim=-1) @ normalize(vectors[0], dim=0)
    found = result(find_neighbours(asked, texts[0], most=5))[1]
    expected = similar[1:].sort(descending=True).values[:5].tolist()
    assert [n.similarity for n in found.neighbours] == pytest.approx(expected, abs=1e-5)


def test_pairs_have_pairs_for_neighbours(small, rows):
    corpus = replace(rows, pairs=tuple(reversed(rows.texts)), fingerprint="pairs")
    found = trained(small, corpus, PAIRED)
    asked = SelectedHeads(
        classifiers=found, corpus=corpus, split_rows=lambda: (tuple(range(60)), ())
    )
    for one in result(find_neighbours(asked, corpus.texts[3], corpus.pairs[3], 2)):
        nearest = one.neighbours[0]
        assert (nearest.text, nearest.pair) == (corpus.texts[3], corpus.pairs[3])
    with pytest.raises(DataError):
        result(find_neighbours(asked, "the cat"))


def test_what_a_head_was_trained_on_must_be_known(asked):
    with pytest.raises(DataError):
        result(find_neighbours(SelectedHeads(classifiers=asked.classifiers), "the cat"))
    with pytest.raises(DataError):
        result(find_neighbours(asked, "the cat", most=0))


def test_an_edit_flips_the_heads_whose_answer_changes(asked):
    text, *edits = asked.corpus.texts[:12]
    found = compare_edits(asked.classifiers, text, edits)
    for number, head in enumerate(asked.classifiers):
        answers = [(one,) for one in head.predict([text, *edits])]
        expected = [answer != answers[0] for answer in answers[1:]]
        assert [edit.flips[number] for edit in found.edits] == expected
        assert [edit.said[number].answer for edit in found.edits] == answers[1:]
    assert not any(found.original.flips)


SAID = HeadOutput(
    name="a+b",
    classes=("x", "y"),
    logits=(1.0, 0.0),
    probabilities=(0.7, 0.3),
    answer=("x",),
    problem=SINGLE_LABEL,
)


def told(flips):
    two = replace(SAID, name="c+d")
    original = Counterfactual(text="Not bad.", pair="", pieces=pieces("Not bad.", "Not bad."),
                              said=(SAID, two), flips=(False, False))  # fmt: skip
    edit = Counterfactual(text="Bad.", pair="", pieces=pieces("Not bad.", "Bad."),
                          said=(replace(SAID, answer=("y",)), two), flips=flips)  # fmt: skip
    return Counterfactuals(original=original, edits=(edit,))


def test_a_sentence_says_who_flips_on_what():
    assert told((True, False)).summary == (
        "a+b says x and flips: “Not bad.” → “Bad.” (y). No edit changes the answer of c+d."
    )
    assert told((False, False)).summary == "No edit changes the answer of any head."
    assert told((False, False)).as_json()["summary"] == told((False, False)).summary


def test_a_number_does_not_flip_but_moves():
    flips = told((False, False))
    values = {"logits": (2.0,), "probabilities": (2.0,), "answer": (), "problem": REGRESSION}
    number = replace(SAID, classes=("score",), **values)
    original = replace(flips.original, said=(number,), flips=(False,))
    edit = replace(flips.edits[0], said=(replace(number, logits=(3.5,)),), flips=(False,))
    assert Counterfactuals(original=original, edits=(edit,)).summary == (
        "a+b moves most with “Not bad.” → “Bad.”: from +2.00 to +3.50."
    )
    assert read_output(number).softmax == ()


WORDS = st.lists(st.sampled_from(["not", "bad", "at", "all", "good", "very"]), max_size=8)


@given(WORDS, WORDS)
def test_pieces_hold_all_words_of_both_texts(before, after):
    found = pieces(" ".join(before), " ".join(after))

    def words(*kinds):
        return " ".join(text for kind, text in found if kind in kinds).split()

    assert words("same", "removed") == before
    assert words("same", "added") == after


def test_edits_that_do_not_fit_get_a_sentence(asked):
    with pytest.raises(DataError):
        compare_edits(asked.classifiers, "the cat", [])
    with pytest.raises(DataError):
        compare_edits(asked.classifiers, "the cat", ["  "])
    with pytest.raises(LimitError):
        compare_edits(asked.classifiers, "the cat", ["a"] * 101)


LOGITS = st.lists(st.floats(-30, 30), min_size=2, max_size=6)


@given(LOGITS, st.floats(0.1, 10))
def test_temperature_changes_how_sure_a_head_is_and_never_its_answer(logits, temperature):
    plain, scaled = tempered_probabilities(logits, 1), tempered_probabilities(logits, temperature)
    assert sum(scaled) == pytest.approx(1)
    assert scaled[plain.index(max(plain))] == pytest.approx(max(scaled))
    surer = max(scaled) - max(plain)
    assert surer <= 1e-9 if temperature > 1 else surer >= -1e-9


@pytest.mark.parametrize("temperature", [0, 0.05, 11, float("nan"), float("inf"), -1])
def test_a_temperature_out_of_range_is_refused(temperature):
    with pytest.raises(DataError):
        tempered_probabilities([1, 2], temperature)


def test_softmax_and_sigmoid_of_the_same_logits():
    shares = {"logits": (2.0, 2.0, -2.0), "probabilities": (0.5, 0.5, 0.0)}
    one = replace(SAID, classes=("x", "y", "z"), **shares)
    found = read_output(one, 2.0)
    assert sum(found.softmax) == pytest.approx(1)
    assert found.sigmoid == pytest.approx([0.8808, 0.8808, 0.1192], abs=1e-4)
    assert found.tempered == pytest.approx(tempered_probabilities(one.logits, 2.0))
    many = read_output(replace(one, problem=MULTI_LABEL), 2.0)
    assert many.tempered == pytest.approx([0.7311, 0.7311, 0.2689], abs=1e-4)
    assert many.as_json()["logits"] == one.logits
    votes = tempered_probabilities(one.logits, 1.0, ONE_VERSUS_REST)
    assert votes == pytest.approx([0.4683, 0.4683, 0.0634], abs=1e-4)
    assert tempered_probabilities([3.5], 2.0, REGRESSION) == (3.5,)


def test_a_layer_is_taken_out_and_the_head_stays_as_it_was(asked):
    head = asked.classifiers[0]
    texts = ["the cat sat on a mat", "a late flight"]
    before = head.logits(texts)
    without = remove_layer(head, "dense")
    chain = head.head.module.head
    vectors = torch.cat(
        [
            head.head.module.vectors(head.backbone.states([one]))
            for one in head.backbone.encode(texts)
        ]
    )
    expected = chain.out_proj(chain.tanh(vectors))
    assert torch.allclose(without.logits(texts), expected, atol=1e-5)
    assert torch.equal(head.logits(texts), before)


def test_names_and_kinds_of_layers(asked):
    heads = {str(one.recipe): one for one in asked.classifiers}
    assert find_layers(heads["cls+bert"], "dense") == ("pooler.dense",)
    assert find_layers(heads["cls+bert"], "pooler.activation") == ("pooler.activation",)
    assert find_layers(heads["mean+modernbert"]) == ("head.dense", "head.act", "head.norm")
    assert find_layers(heads["mean+modernbert"], "norm") == ("head.norm",)
    assert find_layers(heads["attention+linear"]) == ()
    assert kind_of(torch.nn.Dropout(0.1)) == "dropout"
    with pytest.raises(RecipeError):
        find_layers(heads["attention+linear"], "dense")
    with pytest.raises(RecipeError):
        remove_layer(heads["cls+roberta"], "tahn")


def test_a_layer_whose_sizes_do_not_fit_says_why(asked):
    found = result(ablate_layers(asked, "the cat sat", retrain=False))
    hidden = next(one for one in found if one.layer == "hidden")
    assert hidden.after is None
    assert hidden.says.startswith("hidden of mean+mlp maps 32 numbers to 256, and what comes")
    with pytest.raises(RecipeError):
        remove_layer(asked.classifiers[0], "out_proj")


def test_the_effect_is_measured_on_rows_that_were_not_learned_from(asked):
    texts = [asked.corpus.texts[row] for row in asked.held]
    events = ablate_layers(asked, "the cat sat", without="activation", retrain=False)
    for one in result(events):
        assert (one.retrained, one.worth, one.why_not_retrained) == (None, None, "")
        assert f"not what {one.layer} is worth" in one.says
        head = next(c for c in asked.classifiers if str(c.recipe) == one.name)
        whole, bare = head.predict(texts), remove_layer(head, one.layer).predict(texts)
        assert one.effect.rows == len(asked.held)
        assert one.effect.changed == sum(a != b for a, b in zip(whole, bare, strict=True))
        true = [asked.corpus.classes[asked.corpus.targets[row][0]] for row in asked.held]
        right = sum(a == b for a, b in zip(whole, true, strict=True)) / len(true)
        assert one.effect.before == pytest.approx(right)


def test_a_head_is_trained_anew_without_the_layer(asked, small):
    texts = [asked.corpus.texts[row] for row in asked.held]
    true = [asked.corpus.classes[asked.corpus.targets[row][0]] for row in asked.held]
    found = {(one.name, one.layer): one for one in result(ablate_layers(asked, "the cat sat"))}
    assert len(found) == 9  # mlp's hidden layer can be left out only of a head that is trained anew
    assert found["mean+mlp", "hidden"].after is None
    for (name, layer), one in found.items():
        whole = next(c for c in asked.classifiers if str(c.recipe) == name)
        recipe = f"{name}?without={layer}"
        (bare,) = trained(small, asked.corpus, [recipe])
        assert one.retrained.name == recipe
        calibrated = replace(bare, head=calibrate(bare.head))
        expected = calibrated.logits(["the cat sat"])[0].tolist()
        assert one.retrained.logits == pytest.approx(expected, abs=1e-5)
        shares = [
            sum(a == b for a, b in zip(each.predict(texts), true, strict=True)) / len(true)
            for each in (whole, bare)
        ]
        assert (one.worth.whole, one.worth.without) == pytest.approx(shares)
        assert one.worth.difference == pytest.approx(shares[0] - shares[1])
        assert one.worth.low <= one.worth.difference <= one.worth.high
        assert one.worth.low < one.worth.high
        assert (one.worth.rows, one.worth.seeds) == (len(true), 1)
        assert f"Trained anew without {layer} on the same rows" in one.says
        assert "each trained once" in one.says


def test_why_a_head_is_not_trained_anew_is_said(asked, small, rows):
    unknown = replace(asked, classifiers=asked.classifiers[:1], corpus=None)
    one = result(ablate_layers(unknown, "the cat", without="dense"))[0]
    assert one.says.endswith(
        "It was not trained anew without it: what cls+roberta was trained on is not known here."
    )
    elsewhere = replace(
        asked, classifiers=asked.classifiers[:1], split_rows=lambda: (asked.held, ())
    )
    one = result(ablate_layers(elsewhere, "the cat", without="dense"))[0]
    assert "which rows cls+roberta learned from is not known" in one.says
    solved = replace(asked, classifiers=trained(small, rows, ["mean+cosine"]))
    one = result(ablate_layers(solved, "the cat", without="scale"))[0]
    assert "cosine is solved at once as it is" in one.says
    assert one.after is not None


def test_no_head_has_the_layer(asked):
    bare = replace(asked, classifiers=asked.classifiers[1:2])
    with pytest.raises(RecipeError):
        result(ablate_layers(bare, "the cat", without="dense"))


def test_heads_are_given_or_found_by_name(asked):
    one = asked.classifiers[0]
    found = result(select_heads(HeadRequest(recipes=[one])))
    assert found.classifiers == (one,)
    assert found.corpus is None
    for kind, request in (
        (LimitError, HeadRequest(recipes=[f"mean+linear?dropout=0.{n:02}" for n in range(1, 18)])),
        (DataError, HeadRequest(run="nothing")),
        (RecipeError, HeadRequest(recipes=["mean+robert"])),
    ):
        with pytest.raises(kind):
            result(select_heads(request))


def test_which_rows_a_classifier_learned_from_is_known_of_a_sample(tiny):
    request = HeadRequest(recipes=["mean+linear"], model=str(tiny()))
    named = result(select_heads(request))
    given = result(select_heads(replace(request, recipes=named.classifiers)))
    assert (given.learned, given.held) == (named.learned, named.held)
    assert not set(given.learned) & set(given.held)


@pytest.fixture(scope="module")
def board(tiny, tmp_path_factory):
    """A run with a head, the same without its activation, and a linear head."""
    config = public.ExperimentConfig(seeds=2, folds=2, curve=False)
    recipes = ["mean+mlp?hidden=8", "mean+mlp?hidden=8&without=activation", "mean+logistic"]
    place = tmp_path_factory.mktemp("run") / "run"
    chosen = {"recipes": recipes, "model": str(tiny()), "config": config}
    return public.train_grid("sentiment", **chosen, out=place)


def test_heads_of_a_run(board):
    run = str(board.folder.path)
    found = result(select_heads(HeadRequest(run=run)))
    names = [cell.name for cell in board.cells if not cell.is_baseline]
    assert {str(one.head.asked) for one in found.classifiers} == {*names}
    assert not set(found.learned) & set(found.held)
    inside = public.Inspector(run=run, recipes=["mean+logistic"])
    (near,) = inside.nearest("Not bad at all.", most=3)
    assert near.searched == len(found.learned)
    assert inside.attribute("Not bad at all.")[0].is_complete
    with pytest.raises(DataError):
        public.Inspector(run=run, recipes=["mean+linear"]).attribute("Not bad at all.")
    with pytest.raises(RecipeError):
        public.Inspector(run=run, recipes=[found.classifiers[0]]).attribute("x")


def test_a_layer_of_a_head_of_a_run_is_searched_and_trained_as_its_cells_were(board):
    scores = {cell.name: cell.measures for cell in board.cells}
    name, bare_name = "mean+mlp?hidden=8", "mean+mlp?hidden=8&without=activation"
    inside = public.Inspector(run=str(board.folder.path), recipes=[name])
    found = inside.ablate("Not bad at all.", without="activation")[0]
    whole, bare = scores[name], scores[bare_name]  # what the run itself says of both
    assert found.retrained.name.startswith(bare_name)
    assert (found.worth.whole, found.worth.without) == pytest.approx((whole.score, bare.score))
    assert (found.worth.seeds, found.worth.rows) == (2, whole.rows)
    assert found.worth.low <= found.worth.difference <= found.worth.high
    kept = board.classifier(bare_name).logits(["Not bad at all."])[0].tolist()
    assert found.retrained.logits == pytest.approx(kept, abs=1e-5)
    again = inside.ablate("Not bad at all.", without="activation")[0]
    assert again.worth == found.worth
