"""Select the texts that a server is asked about.

The built-in ones have what servers treat differently: lengths, scripts, case, numbers, signs, outer
spaces, a control character, decomposed accents. Nearly every checkpoint reads all of them uncut.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from heads.classifier.classifier import Classifier
from heads.data.corpus import check_text
from heads.errors import DataError
from heads.extras.serving.encoding import Row, RowEncoder
from heads.settings import Limits

PROBES = Path(__file__).with_name("probes.json")  # texts, each with a second one


def select_probes(
    classifier: Classifier, texts: Sequence[str], pairs: Sequence[str], paired: bool, limits: Limits
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
        checked = ([check_text(text, limits, name) for text in side] for side, name in columns)
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
