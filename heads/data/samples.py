"""The sample data that the heads on show are trained on: CSV files written for this project."""

from dataclasses import dataclass
from pathlib import Path

from heads.errors import DataError, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One of the files in assets/examples.

    Attributes:
        name: The file's name without its ending.
        title: How the page calls it.
        says: One sentence for the user.
        pair: Whether a row holds two texts.
        number: Whether the label is a number that is to be predicted.
        tries: New texts to try, none of them in the file, on most of which the usual heads
            disagree; the first one opens the page.
        expected: The class of each of `tries`; "" where readers may differ.
    """

    name: str
    title: str
    says: str
    tries: tuple[tuple[str, ...], ...]
    pair: bool = False
    number: bool = False
    expected: tuple[str, ...] = ()

    def expected_of(self, text: str, pair: str = "") -> str:
        """Return the class of a text to try, or "" where it is not known."""
        known = dict(zip(self.tries, self.expected, strict=False))
        return known.get((text, pair) if pair else (text,), "")

    @property
    def path(self) -> Path:
        """Where the file lies: in the installed package, or beside it in a checkout."""
        package = Path(__file__).parents[1]
        folders = (package / "assets", package.parent / "assets")
        found = (folder / "examples" / f"{self.name}.csv" for folder in folders)
        return next((path for path in found if path.is_file()), package / f"{self.name}.csv")


SAMPLES: dict[str, Sample] = {
    sample.name: sample
    for sample in (
        Sample(
            name="sentiment",
            title="Sentiment",
            says="Is a sentence negative, neutral or positive?",
            tries=(
                ("I laughed, but not where I was meant to.",),
                ("We waited an hour for cold soup.",),
                ("Great, another delay.",),
                ("Well, at least it was short.",),
            ),
            expected=("negative", "negative", "negative", ""),
        ),
        Sample(
            name="intents",
            title="Support intents",
            says="What does a customer of an online shop want?",
            tries=(
                ("I don't want a refund, I just want to know where my parcel is.",),
                ("You charged me twice for a parcel that never came.",),
                ("I sent it back last week and heard nothing.",),
                ("Can I still stop the order I placed this morning?",),
            ),
            expected=("track_order", "payment_problem", "refund_status", "cancel_order"),
        ),
        Sample(
            name="pairs",
            title="Sentence pairs",
            says="Do two sentences say the same thing?",
            pair=True,
            tries=(
                ("The bridge was closed by the storm.", "Because of the storm the bridge is shut."),
                ("The dog chased the cat.", "The cat chased the dog."),
                ("The shop opens at nine.", "The shop closes at nine."),
                ("It rained all day.", "There was no sun today."),
            ),
            expected=("paraphrase", "different", "different", ""),
        ),
        Sample(
            name="aspects",
            title="Review aspects",
            says="Which aspects does a review mention? Any number may apply.",
            tries=(
                ("Lovely colour, but it took three weeks to arrive.",),
                ("Too expensive for something that broke after a month.",),
                ("The support team answered at once and the manual is clear.",),
                ("I gave it to my brother.",),
            ),
        ),
        Sample(
            name="similarity",
            title="Sentence similarity",
            says="How alike are two sentences, from 0 (unrelated) to 5 (the same)?",
            pair=True,
            number=True,
            tries=(
                ("The road is blocked by a fallen tree.", "A tree fell and blocks the road."),
                ("She sings in a choir.", "She sings alone in the shower."),
                ("He missed the last bus.", "The bus driver misses his family."),
            ),
        ),
    )
}

RECIPES = ("cls+linear", "mean+linear", "cls+roberta", "attention+linear")  # where none is named
# Of two sentences: heads that encode each separately, which reach most on the sample of pairs.
PAIR_RECIPES = ("cls+linear", "mean+linear", "max+linear", "mean+mlp")
TEXT = "Not bad at all."  # likewise


def sample(name: str) -> Sample:
    """Look a sample up by name, or raise DataError."""
    if name not in SAMPLES:
        raise DataError(f"There is no sample called '{name[:80]}'.", did_you_mean(name, SAMPLES))
    return SAMPLES[name]


def sample_for(name: str, pair: str) -> Sample:
    """Return the sample of that name, or one for as many sentences, or raise DataError."""
    data = sample(name or ("pairs" if pair.strip() else "sentiment"))
    if data.pair and not pair.strip():
        what = f"The sample '{data.name}' compares two sentences; the second one is empty."
        raise DataError(what, "Type a second sentence, or choose another sample.")
    if pair.strip() and not data.pair:
        what = f"The sample '{data.name}' is about one sentence, and there are two."
        hint = "Empty the second sentence, or choose the sample pairs or similarity."
        raise DataError(what, hint)
    return data
