"""The texts that a server is asked about.

They are short and long, of several scripts, in either case, with numbers, signs and outer spaces:
what servers treat differently. All are short enough to be read whole by nearly every checkpoint.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from heads.classifier.classifier import Classifier
from heads.data.corpus import check_text
from heads.errors import DataError
from heads.extras.serving.variants import encoded
from heads.settings import Limits

TEXTS = (
    "Good.",
    " Not bad at all.",
    "it was late\x07\n",
    "The cat sat on a mat.",
    "THE DOG RAN HOME!",
    "a flight cancelled twice",
    "Why not?",
    "no no no",
    "3 of 10, 4.5 kg",
    "C\u0327a va tre\u0300s bien.",
    "Das war nichts.",
    "Всё отлично",
    "とても良い本です",
    "الخدمة ممتازة",
    "yes, and the cat ran on",
    "(a) [b] {c} <d> & e",
    "The soup was cold, the waiter rude, and the bill wrong.",
    "I have never laughed so much in a cinema; go and see it.",
    "Call 0800 123 456 before 17:30 on 3 May 2024, ref. AB-77/1.",
    "my card did not arrive and nobody answers the phone any more",
    "It is neither good nor bad, just another film about two people in Paris.",
    "Despite the rain, the queue and the price, we would come back tomorrow.",
    "The kettle leaks, the handle is cracked, and the shop wants the receipt that came with it. "
    "I had hoped for more.",
    "Set an alarm for half past six, play something quiet until then, and tell me in the morning "
    "whether the train to the airport is on time or I should rather take the car.",
)
SECONDS = (
    "It is fine.",
    " It is bad.\t",
    "we were early",
    "A dog lay on a mat.",
    "a cat",
    "The plane left on time after all.",
    "Because.",
    "yes",
    "2.5 kg",
    "Comment vas-tu ?",
    "Es war alles.",
    "Ужасно",
    "この本は退屈です",
    "الخدمة سيئة",
    "the dog ran off",
    "f / g",
    "The food was good and the staff friendly.",
    "I left before the end.",
    "Write to us by e-mail.",
    "My card came within two days.",
    "A film about Paris.",
    "We will not come again.",
    "The kettle works.",
    "Wake me at half past six.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """The texts that a server is asked about, with as many second texts, or none."""

    texts: tuple[str, ...]
    pairs: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, numbers: Sequence[int]) -> tuple[list[str], list[str]]:
        """Some of them: first texts and second ones."""
        return [self.texts[n] for n in numbers], [self.pairs[n] for n in numbers if self.pairs]

    def row(self, number: int) -> tuple[list[str], list[str]]:
        """One of them, as a server is asked about it."""
        return [self.texts[number]], list(self.pairs[number : number + 1])


def probes_of(
    classifier: Classifier,
    texts: Sequence[str],
    pairs: Sequence[str],
    paired: bool,
    limits: Limits,
) -> Probes:
    """The user's texts, or ours as far as the checkpoint reads them whole."""
    classifier.backbone.check_reads()
    if pairs and len(pairs) != len(texts):
        what = f"There are {len(texts)} texts and {len(pairs)} second texts."
        raise DataError(what, "Give one second text for each text, or none.")
    needs = paired or classifier.head.needs_pairs
    if texts and needs and not pairs:
        raise DataError("This head needs two texts, and there is one.", "Give second texts too.")
    if texts:
        first, second = (
            tuple(check_text(text, limits, what) for text in given)
            for given, what in ((texts, "text"), (pairs, "second text"))
        )
        return Probes(texts=first, pairs=second)
    second = SECONDS if needs else ()
    own = list(TEXTS), list(second)
    inputs = encoded(classifier.backbone, *own, siamese=is_siamese(classifier))
    most = classifier.backbone.tokens
    kept = [n for n, text in enumerate(inputs) if max(side.whole_length for side in text) <= most]
    if len(kept) < 2:
        what = f"This checkpoint reads {most} tokens, too few for the texts that stand ready."
        raise DataError(what, "Give texts of your own with --text.")
    return Probes(
        texts=tuple(own[0][n] for n in kept), pairs=tuple(own[1][n] for n in kept if second)
    )


def is_siamese(classifier: Classifier) -> bool:
    """Whether a head reads two texts each by itself."""
    return classifier.head.module.is_siamese
