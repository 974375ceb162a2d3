"""The texts that a server is asked about.

They are short and long, of several scripts, in upper and lower case, with numbers, signs and outer
spaces: what servers treat differently. Nearly every checkpoint reads all of them without cutting.
"""

from collections.abc import Sequence

from heads.classifier.classifier import Classifier
from heads.data.corpus import check_text
from heads.errors import DataError
from heads.extras.serving.encoding import Row, RowEncoder
from heads.settings import Limits

PROBES = (
    ("Good.", "It is fine."),
    (" Not bad at all.", " It is bad.\t"),
    ("it was late\x07\n", "we were early"),
    ("The cat sat on a mat.", "A dog lay on a mat."),
    ("THE DOG RAN HOME!", "a cat"),
    ("a flight cancelled twice", "The plane left on time after all."),
    ("Why not?", "Because."),
    ("no no no", "yes"),
    ("3 of 10, 4.5 kg", "2.5 kg"),
    ("C\u0327a va tre\u0300s bien.", "Comment vas-tu ?"),
    ("Das war nichts.", "Es war alles."),
    ("Всё отлично", "Ужасно"),
    ("とても良い本です", "この本は退屈です"),
    ("الخدمة ممتازة", "الخدمة سيئة"),
    ("yes, and the cat ran on", "the dog ran off"),
    ("(a) [b] {c} <d> & e", "f / g"),
    (
        "The soup was cold, the waiter rude, and the bill wrong.",
        "The food was good and the staff friendly.",
    ),
    ("I have never laughed so much in a cinema; go and see it.", "I left before the end."),
    ("Call 0800 123 456 before 17:30 on 3 May 2024, ref. AB-77/1.", "Write to us by e-mail."),
    (
        "my card did not arrive and nobody answers the phone any more",
        "My card came within two days.",
    ),
    (
        "It is neither good nor bad, just another film about two people in Paris.",
        "A film about Paris.",
    ),
    (
        "Despite the rain, the queue and the price, we would come back tomorrow.",
        "We will not come again.",
    ),
    (
        "The kettle leaks, the handle is cracked, and the shop wants the receipt that came with "
        "it. I had hoped for more.",
        "The kettle works.",
    ),
    (
        "Set an alarm for half past six, play something quiet until then, and tell me in the "
        "morning whether the train to the airport is on time or I should rather take the car.",
        "Wake me at half past six.",
    ),
)


def select_probes(
    classifier: Classifier,
    texts: Sequence[str],
    pairs: Sequence[str],
    paired: bool,
    limits: Limits,
) -> list[Row]:
    """Return the user's texts, or the built-in ones that the checkpoint reads without cutting.

    Raises:
        DataError: The texts do not suit the checkpoint, or it reads too few tokens.
    """
    classifier.backbone.check_reads()
    if pairs and len(pairs) != len(texts):
        what = f"There are {len(texts)} texts and {len(pairs)} second texts."
        raise DataError(what, "Give one second text for each text, or none.")
    needs_pairs = paired or classifier.head.needs_pairs
    if texts and needs_pairs and not pairs:
        raise DataError("This head needs two texts, and there is one.", "Give second texts too.")
    if texts:
        columns = [(texts, "text"), (pairs, "second text")][: 1 + bool(pairs)]
        checked = ([check_text(text, limits, name) for text in side] for side, name in columns)
        return list(zip(*checked, strict=True))
    rows: list[Row] = [row if needs_pairs else row[:1] for row in PROBES]
    limit = classifier.backbone.tokens
    inputs = RowEncoder.of(classifier).encode(rows)
    rows = [
        row
        for row, sides in zip(rows, inputs, strict=True)
        if all(side.whole_length <= limit for side in sides)
    ]
    if len(rows) < 2:
        what = f"This checkpoint reads {limit} tokens, too few for the built-in texts."
        raise DataError(what, "Give texts of your own with --text.")
    return rows
