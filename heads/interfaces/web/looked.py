"""What the tab "Look inside" shows: from what its inputs say to the values of its outputs."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr

from heads.analysis.attribution_methods import Attribution
from heads.backbone.models import BUNDLED
from heads.data.samples import SAMPLES
from heads.errors import DataError, LimitError, RecipeError
from heads.interfaces import drawings
from heads.interfaces.web import kept_runs
from heads.interfaces.web.guards import sentence, throttled
from heads.settings import limits

if TYPE_CHECKING:
    from heads.analysis.selection import Chosen, Heads, Said
    from heads.events import Progress

MOST = 4
RUN, SAMPLE = "run:", "sample:"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the inputs of the tab say, in their order."""

    trained_on: str
    recipes: Sequence[str]
    text: str
    pair: str
    model: str
    label: str
    against: str = "others"

    @property
    def chosen(self) -> "Chosen":
        """Which heads are asked.

        Raises:
            RecipeError: None is.
            LimitError: More than fit side by side.
        """
        from heads.analysis.selection import Chosen

        if not self.recipes:
            raise RecipeError("No head is chosen.", "Choose one.")
        if len(self.recipes) > MOST:
            raise LimitError(f"At most {MOST} heads stand side by side.", "Take some away.")
        kind, _, name = (self.trained_on or "").partition(":")
        if kind == "run":
            return Chosen(recipes=self.recipes, run=kept_runs.opened(name).id)
        return Chosen(recipes=self.recipes, model=self.model or BUNDLED, sample=name)

    @property
    def second(self) -> str:
        """The second sentence, where what the heads were trained on has one."""
        return self.pair or "" if has_pairs(self.trained_on) else ""


def samples() -> list[tuple[str, str]]:
    """The samples that heads may be trained on, as a menu shows them."""
    return [(f"Sample: {item.title}", SAMPLE + name) for name, item in SAMPLES.items()]


def choices(mine: Any) -> list[tuple[str, str]]:
    """What heads may be trained on: the samples, and the runs that a visitor may see."""
    return samples() + [(f"Run: {title}", RUN + name) for title, name in kept_runs.choices(mine)]


def has_pairs(trained_on: str) -> bool:
    """Whether rows hold two sentences."""
    from heads.runs.spec import load

    kind, _, name = (trained_on or "").partition(":")
    if kind == "run":
        return bool(load(kept_runs.opened(name)).corpus.pairs)
    return name in SAMPLES and SAMPLES[name].pair


def classes_of(trained_on: str) -> tuple[str, ...]:
    """The names of the classes; there are none where numbers are predicted."""
    from heads.runs.spec import load
    from heads.training.sampled import corpus_of

    kind, _, name = (trained_on or "").partition(":")
    if kind == "run":
        corpus = load(kept_runs.opened(name)).corpus
    elif name in SAMPLES:
        corpus = corpus_of(SAMPLES[name], limits())
    else:
        return ()
    return () if corpus.kind == "number" else corpus.classes


def heads_of(trained_on: str) -> list[str]:
    """The heads of a run; of a sample, nothing: any recipe can be trained on it."""
    from heads.runs.spec import load

    kind, _, name = (trained_on or "").partition(":")
    return list(load(kept_runs.opened(name)).recipes) if kind == "run" else []


# Every output with nothing in it: status, details, tokens, reads, near, read, tempered, layers,
# what was said, edits, their answers, the temperature, all that tells how sure a head is, and the
# button that trains heads without their layers.
HIDDEN: Any = gr.update(visible=False)
BLANK: list[Any] = ["", HIDDEN, *[""] * 6, [], gr.skip(), "", 0, gr.skip(), HIDDEN]


def shown(asked: Asked) -> Iterator[list[Any]]:
    """The values of the outputs, in the order of `BLANK`, as they come to be known.

    What was found for another text goes at once.
    """
    from heads.analysis.selection import Heads, choosing

    try:
        heads = None
        yield [drawings.busy("Loading the heads"), BLANK[1], *[gr.skip()] * (len(BLANK) - 2)]
        for event in throttled(choosing(asked.chosen, asked.second, limits())):
            if isinstance(event, Heads):
                heads = event
            else:
                yield _busy(event)
        assert heads is not None
        yield from _looked(asked, heads)
    except Exception as error:
        yield [drawings.failure(sentence(error)), *BLANK[1:]]


def _looked(asked: Asked, heads: "Heads") -> Iterator[list[Any]]:
    from heads.analysis.attribution import attributions
    from heads.analysis.counterfactuals import suggested
    from heads.analysis.selection import reading
    from heads.api import ablating, answered, searching
    from heads.events import Progress
    from heads.interfaces import looks

    yield _busy(Progress(says="Following every token through the base model", share=0.1))
    found = attributions(
        heads.classifiers, asked.text, asked.second, asked.label, asked.against or "others"
    )
    said = answered(heads.classifiers, asked.text, asked.second)
    numbers = all(one.squash == "none" for one in said)
    known = drawings.notes(_remarks(heads, found))
    found = [replace(one, unread=0) for one in found]  # which is said once, not for each head
    read = [reading(one) for one in said]
    values: list[Any] = [
        *(drawings.busy("Looking for the nearest training examples"), gr.update(visible=True)),
        *(known + looks.attributions(found, numbers=numbers), looks.reads(found), ""),
        *(looks.readings(read), looks.temperature(read), ""),
        *(list(said), "\n".join(suggested(asked.text)), "", 0, gr.update(visible=not numbers)),
        gr.update(visible=heads.run is not None),
    ]
    yield [*values]
    values[4] = looks.neighbours(
        (yield from _with_progress(searching(heads, asked.text, asked.second)))
    )
    # Heads of a sample are trained anew in seconds; those of a run when that is asked for.
    anew = heads.run is None
    values[7] = looks.ablations(
        (yield from _with_progress(ablating(heads, asked.text, asked.second, retrain=anew)))
    )
    values[0] = drawings.sayers(said)
    yield values


def _remarks(heads: "Heads", found: Sequence[Attribution]) -> Iterator[str]:
    """What the heads could not read: tokens that were left out, and unknown ones."""
    for one in found:
        if one.unread:
            yield one.says.removeprefix(replace(one, unread=0).says).strip()
    sign = heads.classifiers[0].backbone.tokenizer.unk_token
    unknown = sum(bool(token.side) and token.text == sign for token in found[0].tokens)
    if unknown:
        verb = "is" if unknown == 1 else "are"
        yield (
            f"{drawings.counted(unknown, 'token')} {verb} {sign}: the base model does not know "
            "these signs or words, so no head can tell what they are."
        )


def _with_progress(
    events: "Generator[Progress, None, Found]",
) -> Generator[list[Any], None, Found]:
    """Shows the progress of some work, and hands its result on."""
    while True:
        try:
            event = next(events)
        except StopIteration as done:
            return done.value
        yield _busy(event)


def _busy(event: "Progress") -> list[Any]:
    return [drawings.progress(event), *[gr.skip()] * (len(BLANK) - 1)]


def retrained(asked: Asked) -> Iterator[Any]:
    """What heads say with a layer taken out and trained anew without it: progress, then that."""
    from heads.analysis.selection import Heads, choosing
    from heads.api import ablating
    from heads.interfaces import looks

    try:
        heads = [e for e in choosing(asked.chosen, asked.second, limits()) if isinstance(e, Heads)]
        events = ablating(heads[-1], asked.text, asked.second)
        while True:
            try:
                yield drawings.progress(next(events))
            except StopIteration as done:
                yield looks.ablations(done.value)
                return
    except Exception as error:
        yield drawings.failure(sentence(error))


def edited(asked: Asked, lines: str) -> Any:
    """What the heads say of edits, one a line."""
    from heads.analysis.counterfactuals import flipped
    from heads.analysis.selection import Heads, choosing
    from heads.interfaces import looks

    try:
        heads = [e for e in choosing(asked.chosen, asked.second, limits()) if isinstance(e, Heads)]
        edits = [line for line in (lines or "").splitlines() if line.strip()]
        return looks.flips(flipped(heads[-1].classifiers, asked.text, edits, asked.second))
    except Exception as error:
        return drawings.failure(sentence(error))


def warmed(said: "Sequence[Said]", power: Any) -> Any:
    """The same logits at another temperature, ten to that power; no head is asked again."""
    from heads.analysis.selection import reading
    from heads.interfaces import looks

    try:
        if not isinstance(power, int | float) or not -1 <= power <= 1:
            what = "The temperature goes from −1 to 1, as a power of ten."
            raise DataError(what, "Type a number between them, or move the slider.")
        return looks.temperature([reading(one, 10**power) for one in said or ()])
    except Exception as error:
        return drawings.failure(sentence(error))
