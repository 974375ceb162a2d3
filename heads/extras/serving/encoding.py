"""Texts as the checkpoint's tokenizer encodes them, and as faulty servers do."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unicodedata import normalize

from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded
from heads.classifier.classifier import Classifier
from heads.data.corpus import check_text
from heads.errors import DataError
from heads.extras.serving.report import CheckFinding, fault

Row = tuple[str, ...]  # a text, or a text and its second text
Inputs = tuple[Encoded, ...]  # a row as the base model gets it; a siamese pair is two
UNCUT = 1 << 20  # tokens: more than any text has here


def _without_special(text: Encoded) -> Encoded:
    places = [place for place, special in enumerate(text.special) if not special]
    return _select_tokens(text, places) if places else text


def _with_one_type(text: Encoded) -> Encoded:
    types = {n: [0] * len(row) for n, row in text.inputs.items() if n == "token_type_ids"}
    return replace(text, inputs=text.inputs | types)


def _select_tokens(text: Encoded, places: Sequence[int]) -> Encoded:
    return Encoded(
        inputs={name: [row[n] for n in places] for name, row in text.inputs.items()},
        special=[text.special[n] for n in places],
        whole_length=text.whole_length,
    )


# What servers do to rows and to tokens, with what to do about it. A change that makes no difference
# to the rows in hand, such as swapping the texts of a pair where there are no pairs, is left out.
RAW = "Let the server give texts to the tokenizer as they come."
ROW_FAULTS: tuple[tuple[str, str, Callable[[Row], Row]], ...] = (
    ("Texts are lower-cased, and the checkpoint distinguishes upper from lower case.",
     "Serve the tokenizer's own files (look at do_lower_case).",
     lambda row: tuple(map(str.lower, row))),
    ("Texts are read without spaces around, and the checkpoint's tokenizer encodes those.",
     RAW, lambda row: tuple(map(str.strip, row))),
    ("Texts are read in Unicode's form NFC, which the checkpoint's tokenizer encodes otherwise.",
     RAW, lambda row: tuple(normalize("NFC", text) for text in row)),
    ("The two texts of a pair are read the other way round.",
     "Send them in the order in which the head learned them.", lambda row: row[::-1]),
    ("The second text of a pair is not read.",
     "Send pairs as this server takes them.", lambda row: row[:1]),
)  # fmt: skip
NO_SPECIAL = (
    "Texts are read without the special tokens that the checkpoint's tokenizer adds.",
    "Let the server's tokenizer add special tokens.",
    _without_special,
)
ONE_TYPE = (
    "Both texts of a pair have the token type 0.",
    "Let the server give the model the token_type_ids of the tokenizer.",
    _with_one_type,
)


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encode rows for a base model."""

    backbone: Backbone  # the base model with its tokenizer
    is_siamese: bool  # whether the two texts of a pair are encoded separately

    def with_limit(self, tokens: int) -> "RowEncoder":
        """Return an encoder that cuts texts after so many tokens."""
        return replace(self, backbone=replace(self.backbone, tokens=tokens))

    def encode(self, rows: Sequence[Row]) -> list[Inputs]:
        """Encode rows as the checkpoint's own tokenizer does."""
        encode = self.backbone.encode
        texts, pairs = [row[0] for row in rows], [row[1] for row in rows if len(row) > 1]
        if self.is_siamese:
            return list(zip(encode(texts), encode(pairs), strict=True))
        if pairs and not self.backbone.separates:
            # What Transformers' tokenizers do where no token separates two texts.
            sides = zip(encode(texts), encode(pairs), strict=True)
            return [(_join(first, second),) for first, second in sides]
        return [(text,) for text in encode(texts, pairs)]

    def iter_faults(self, rows: Sequence[Row]) -> Iterator[tuple[CheckFinding, list[Inputs]]]:
        """Yield each fault that changes how these rows are encoded, with the faulty inputs."""
        inputs = self.encode(rows)
        faults: list[tuple[str, str, list[Inputs]]] = []
        for says, hint, change in (NO_SPECIAL,) * (not self.backbone.written) + (ONE_TYPE,):
            faults.append((says, hint, [tuple(map(change, text)) for text in inputs]))
        if prefix := self.backbone.prefix:
            says = f"The prefix '{prefix:.40}' is not written before texts."
            hint = "Write it before every text that is sent, or let the server do so."
            bare = replace(self, backbone=replace(self.backbone, prefix=""))
            faults.append((says, hint, bare.encode(rows)))
        for says, hint, change_row in ROW_FAULTS:
            changed = [change_row(row) for row in rows]
            if not (self.is_siamese and len(changed[0]) < 2):
                faults.append((says, hint, self.encode(changed)))
        for says, hint, faulty in faults:
            if _token_ids(faulty) != _token_ids(inputs):
                yield fault("input", says, hint), faulty

    def iter_cuts(self, row: Row, limit: int) -> Iterator[tuple[str, Inputs]]:
        """Yield which tokens are left of a row cut to so many, with special ones or not, and it."""
        yield "the first", self.with_limit(limit).encode([row])[0]
        (inputs,) = self.with_limit(max(limit, UNCUT)).encode([row])
        if self.is_siamese or len(inputs[0]) <= limit:
            return
        text, places = inputs[0], range(len(inputs[0]))
        yield "the first", (_select_tokens(text, places[:limit]),)
        yield "the last", (_select_tokens(text, places[-limit:]),)
        # Special tokens at either end stay where the tokenizer puts them.
        begin = next((n for n, special in enumerate(text.special) if not special), 0)
        behind = next((n for n, special in enumerate(text.special[::-1]) if not special), 0)
        room, end = limit - begin - behind, len(text) - behind
        if room > 0 and len(row) < 2:
            inner = [*places[:begin], *places[end - room : end], *places[end:]]
            yield "the last", (_select_tokens(text, inner),)


def _join(first: Encoded, second: Encoded) -> Encoded:
    return Encoded(
        inputs={name: [*row, *second.inputs[name]] for name, row in first.inputs.items()},
        special=[*first.special, *second.special],
        whole_length=first.whole_length + second.whole_length,
    )


def _token_ids(inputs: Sequence[Inputs]) -> list[list[dict[str, list[int]]]]:
    return [[side.inputs for side in text] for text in inputs]


# --- Texts that a server is asked about.

# Texts, each with a second one. They have what servers treat differently: lengths, scripts, case,
# numbers, signs, outer spaces, a control character, decomposed accents.
PROBES = Path(__file__).with_name("probes.json")


def select_probes(
    classifier: Classifier, texts: Sequence[str], pairs: Sequence[str], paired: bool
) -> list[Row]:
    """Return the user's texts, or the built-in ones that the checkpoint reads without cutting."""
    classifier.backbone.check_reads()
    if pairs and len(pairs) != len(texts):
        what = f"There are {len(texts)} texts and {len(pairs)} second texts."
        raise DataError(what, "Give one second text for each text, or none.")
    needs_pairs = paired or classifier.head.needs_pairs
    if texts and needs_pairs and not pairs:
        raise DataError("This head needs two texts, and there is one.", "Give second texts too.")
    if texts:
        columns = [(texts, "text"), (pairs, "second text")][: 1 + bool(pairs)]
        checked = ([check_text(text, name) for text in side] for side, name in columns)
        return list(zip(*checked, strict=True))
    built_in = json.loads(PROBES.read_text("utf-8"))
    rows: list[Row] = [tuple(row) if needs_pairs else (row[0],) for row in built_in]
    encoder = RowEncoder(classifier.backbone, classifier.head.module.is_siamese)
    limit = classifier.backbone.tokens
    encoded = zip(rows, encoder.encode(rows), strict=True)
    rows = [row for row, sides in encoded if max(side.whole_length for side in sides) <= limit]
    if len(rows) < 2:
        what = f"This checkpoint reads {limit} tokens, too few for the built-in texts."
        raise DataError(what, "Give texts of your own with --text.")
    return rows
