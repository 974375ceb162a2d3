"""What an opened lane answers; its heads need torch, so this is imported once one is opened."""

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from heads.classifier.classifier import Classifier
from heads.classifier.prediction import cuts_of, is_close
from heads.data.samples import SAMPLES
from heads.errors import DataError, HeadsError, RecipeError
from heads.events import Progress, result
from heads.inference.selection import HeadRequest, SelectedHeads, select_heads
from heads.interfaces.views import explanation, interpretation
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import busy, render
from heads.interfaces.web import downloads, run_access
from heads.interfaces.web.guards import as_csv, failed, show_progress
from heads.interfaces.web.lane_sections import ANSWERED, Stream
from heads.interfaces.web.location import Location
from heads.interfaces.web.places import base_models
from heads.interfaces.web.temporary_files import exporting
from heads.interpret.ablation import ablate_layers
from heads.interpret.attribution import attributions
from heads.interpret.comparison import script_notes
from heads.interpret.counterfactuals import compare_edits, leave_out_each_word, suggest_edits
from heads.interpret.differences import difference
from heads.interpret.explanation import explain
from heads.interpret.neighbors import find_neighbours
from heads.interpret.outputs import HeadOutput, head_outputs, read_output
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import JOINT
from heads.runs.grids import entering

WHY = ("status", "label", "against", "tokens", "near", "layers", "anew", "lines", "flips")


def load_lane_heads(
    asked: Location, recipes: Sequence[str]
) -> Generator[Progress, None, SelectedHeads]:
    """Load or train the heads of lanes, raw if the page shows raw logits; yield progress."""
    base_models.check_at_hand(asked)
    request = HeadRequest(recipes=recipes, run=asked.run and run_access.opened(asked.run).id)
    if not asked.run:
        names = [_entering(recipe, asked) for recipe in recipes]
        pair, sample = asked.pair if asked.has_pairs else "", asked.sample
        request = HeadRequest(recipes=names, pair=pair, model=asked.model, sample=sample)
    heads = yield from select_heads(request)
    if not asked.raw or asked.show == "take":  # an exported head stays calibrated
        return heads
    raw = (replace(lane, head=lane.head.raw or lane.head) for lane in heads.classifiers)
    return replace(heads, classifiers=tuple(raw))


def load_open_head(
    asked: Location,
) -> Generator[Progress, None, tuple[SelectedHeads, Classifier, str]]:
    """Load or train the head of the open lane; return it, and the second text that it reads."""
    heads = yield from load_lane_heads(asked, [asked.open_recipe])
    (classifier,) = heads.classifiers
    return heads, classifier, _second_text(asked, classifier)


def _second_text(asked: Location, classifier: Classifier) -> str:
    return asked.pair if classifier.head.needs_pairs else ""


def _entering(recipe: str, asked: Location) -> str:
    """A recipe as two texts enter it: where it can, each by itself."""
    if asked.pairs == JOINT or not asked.pair.strip():
        return recipe
    with contextlib.suppress(HeadsError):
        return str(entering(resolve(recipe), asked.pairs))
    return recipe


# --- Why.


def why(asked: Location, label: str, against: str) -> Stream:
    """What the components of this section show, in the order of `WHY`, as it comes to be known."""
    try:
        # What stands there of another text goes at once.
        yield _only(status=busy("Loading the head"), tokens="", near="", layers="")
        heads, classifier, second = yield from show_progress(load_open_head(asked), _status)
        problem = classifier.head.problem
        classes = classifier.head.classes if problem.has_classes else ()
        label = label if label in classes else ""
        yield _only(status=busy("Following every token through the base model"))
        (found,) = attributions(heads.classifiers, asked.text, second, label, against or "others")
        notes = list(script_notes([asked.text, second], classifier.backbone.tokenizer))
        if found.unread:
            notes.insert(0, found.says.removeprefix(replace(found, unread=0).says).strip())
        yield _only(
            status=busy("Looking for the nearest training examples"),
            label=gr.update(choices=[ANSWERED, *classes], value=label, visible=bool(classes)),
            against=gr.update(visible=len(classes) > 2),
            tokens=interpretation.attribution(
                replace(found, unread=0), is_number=not problem.has_classes, notes=notes
            ),
            anew=gr.update(visible=heads.run is not None),
            lines="\n".join(suggest_edits(asked.text)),
            flips="",
        )
        near = yield from show_progress(find_neighbours(heads, asked.text, second), _status)
        yield _only(near=interpretation.neighbours(near))
        # A head of a sample is trained anew in seconds; one of a run when that is asked for.
        ablation = ablate_layers(heads, asked.text, second, retrain=heads.run is None)
        without = yield from show_progress(ablation, _status)
        yield _only(status="", layers=interpretation.ablations(without))
    except Exception as error:
        gone = gr.update(visible=False)
        yield _only(status=failed(error), tokens="", near="", layers="", anew=gone)


def _only(**values: Any) -> list[Any]:
    """Values for some of the components; the others stay as they are."""
    return [values.get(name, gr.skip()) for name in WHY]


def _status(event: Progress) -> list[Any]:
    return _only(status=busy(event.says, event.share))


def retrain(asked: Location) -> Stream:
    """Yield what the head says with a layer taken out and trained anew without it."""
    try:
        heads, _, second = result(load_open_head(asked))
        events = ablate_layers(heads, asked.text, second)
        found = yield from show_progress(events, lambda event: busy(event.says, event.share))
        yield interpretation.ablations(found)
    except Exception as error:
        yield failed(error)


def answer_edits(asked: Location, lines: str) -> Any:
    """Draw what all heads side by side say of edits, one a line."""
    try:
        heads = result(load_lane_heads(asked, asked.recipes))
        edits = [line for line in (lines or "").splitlines() if line.strip()]
        second = _second_text(asked, heads.classifiers[0])
        return interpretation.edits(compare_edits(heads.classifiers, asked.text, edits, second))
    except Exception as error:
        return failed(error)


# --- How, and the numbers.


def how(asked: Location) -> Stream:
    """Yield the chain of the head, from tokens to logits."""
    try:
        _, classifier, second = result(load_open_head(asked))
        head, classes = classifier.head, len(classifier.head.classes)
        found = explain(
            head.asked, classifier.backbone, classes=classes, text=asked.text, pair=second,
            head=head,
        )  # fmt: skip
        title = run_access.title_of(asked.run) if asked.run else SAMPLES[asked.sample].title
        yield [explanation.explanation(found, title)]
    except Exception as error:
        yield [failed(error)]


def compare_lanes(asked: Location, other: str) -> Stream:
    """Yield the menu of the other lanes, and the open head beside one of them.

    Args:
        other: The recipe of the other lane. Default: the first that answers differently.
    """
    try:
        recipe = asked.open_recipe
        others = [name for name in asked.recipes if name != recipe]
        if not others:
            raise RecipeError("There is no other head to compare with.", "Add a lane.")
        yield [gr.skip(), busy("Comparing the two heads")]
        rivals = [other] if other in others else others
        classifiers = result(load_lane_heads(asked, [recipe, *rivals])).classifiers
        second_text = _second_text(asked, classifiers[0])
        outputs = head_outputs(classifiers, asked.text, second_text)
        rival_at = _choose_rival(classifiers, outputs)
        both = first, second = classifiers[0], classifiers[rival_at]
        output, rival_output = outputs[0], outputs[rival_at]
        label, rival = ("".join(o.answer[:1]) for o in (output, rival_output))
        if rival in ("", label):  # both say the same: against the runner-up of the open head
            logits = zip(output.logits, output.classes, strict=True)
            rival = max((pair for pair in logits if pair[1] != label), default=(0.0, ""))[1]
        if first.head.classes == second.head.classes:
            evidence = attributions(both, asked.text, second_text, label, rival or "runner-up")
        else:  # of each head its own answer
            evidence = [attributions([one], asked.text, second_text)[0] for one in both]
        edits = leave_out_each_word(asked.text)
        counterfactuals = compare_edits(both, asked.text, edits, second_text) if edits else None
        rival_recipe = rivals[rival_at - 1]
        lanes = [asked.lane, 1 + asked.recipes.index(rival_recipe)]
        has_own = first.head.is_own or second.head.is_own
        apart = "" if has_own else difference(first.head.asked, second.head.asked, first.backbone)
        yield [
            gr.update(choices=others, value=rival_recipe),
            interpretation.side_by_side(
                both, (output, rival_output), evidence, counterfactuals, lanes, apart
            ),
        ]
    except Exception as error:
        yield [gr.skip(), failed(error)]


def _choose_rival(classifiers: Sequence[Classifier], outputs: Sequence[HeadOutput]) -> int:
    """Return the index of the head to compare with the first: one that answers differently."""
    answers = [
        None if is_close(output.probabilities, classifier.head) else output.answer
        for classifier, output in zip(classifiers, outputs, strict=True)
    ]
    # The answer of a random head means nothing, so it is taken only where there is no other.
    known = [n for n in range(1, len(classifiers)) if not classifiers[n].head.new] or [1]
    return next((n for n in known if answers[n] != answers[0]), known[0])


def numbers(asked: Location) -> Stream:
    """Yield every class with its numbers, the temperature, and what the head says at it."""
    try:
        classifier, said = _predict_lane(asked)
        cuts = cuts_of(classifier.head) if said.problem.has_label_sets else ()
        yield [
            interpretation.numbers(read_output(said), cuts),
            gr.update(visible=said.problem.has_classes, value=0),
            _tempered(asked, said, 0),
        ]
    except Exception as error:
        yield [failed(error), gr.skip(), ""]


def numbers_csv(asked: Location) -> str:
    """Return every class with its numbers as CSV."""
    _, said = _predict_lane(asked)
    return as_csv(*interpretation.number_rows(said))


def apply_temperature(asked: Location, power: Any) -> Any:
    """Draw what the head says at a temperature, or what is wrong with that."""
    try:
        if not isinstance(power, int | float) or not -1 <= power <= 1:
            what = "The temperature goes from −1 to 1, as a power of ten."
            raise DataError(what, "Type a number between them, or move the slider.")
        _, said = _predict_lane(asked)
        return _tempered(asked, said, power)
    except Exception as error:
        return failed(error)


def _predict_lane(asked: Location) -> tuple[Classifier, HeadOutput]:
    """Return the head of the open lane and what it answers."""
    _, classifier, second = result(load_open_head(asked))
    (output,) = head_outputs([classifier], asked.text, second)
    return classifier, output


def _tempered(asked: Location, said: HeadOutput, power: float) -> Any:
    if not said.problem.has_classes:
        return ""
    return interpretation.tempered(read_output(said, 10**power), view.COLOURS[asked.lane - 1])


# --- Take it.


def prepare_file(asked: Location, form: str) -> Stream:
    """Write and verify the head, and hand the file over."""
    hidden = gr.update(visible=False)

    def show(event: Progress) -> list[Any]:
        return [busy(event.says, event.share), hidden]

    try:
        with exporting() as folder:
            _, classifier, _ = yield from show_progress(load_open_head(asked), show)
            classifier = yield from show_progress(classifier.refitted(), show)
            yield [busy("Writing and checking the file"), hidden]
            path, says, code = downloads.written(classifier, form, folder)
            where = "beside" if f'"{path.stem}"' in code else "in"
            told = render("exported.html", lines=says, code=code, where=where)
            yield [told, gr.update(visible=True, value=str(path))]
    except Exception as error:
        yield [failed(error), hidden]


def takes(asked: Location) -> Stream:
    """Yield the forms in which a head can be taken along; nothing is written yet."""
    hidden = gr.update(visible=False)
    # Until they are known: of a form that is no choice any more Gradio would make an error.
    yield [gr.skip(), gr.update(interactive=False), "", hidden]
    try:
        _, classifier, _ = result(load_open_head(asked))
        forms = downloads.forms_of(classifier)
        form = gr.update(choices=forms, value=forms[0])
        yield [form, gr.update(interactive=True), "", hidden]
    except Exception as error:
        yield [gr.skip(), gr.skip(), failed(error), hidden]
