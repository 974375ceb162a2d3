"""A map of rows in words: what is drawn, and how well it can be trusted."""

from collections.abc import Iterator

from heads.backbone.given import is_given
from heads.extras.maps.row_map import NEAR, MappedReading, RowMap
from heads.interfaces.views.format import counted, percent

HEADERS = (
    "Reading", "Variance kept", "Nearest kept", "By chance", "Same label near", "In the picture",
)  # fmt: skip
KEY = (
    f"Nearest kept: of the {NEAR} rows nearest in the vectors, the share that is among the {NEAR} "
    "nearest in the picture. Same label near: of the rows nearest in the vectors, the share with "
    "the row's own label; in the picture: of those nearest there."
)
METHODS = {"pca": "principal components", "tsne": "t-SNE"}


def summarize(found: RowMap) -> str:
    """Say in a sentence what is drawn."""
    rows = counted(len(found.rows), "row")
    read = "as they were given" if is_given(found.model) else f"as {found.model} reads them"
    return (
        f"{rows} of {found.data} {read}, by {METHODS[found.method]}. "
        "Point at a dot to read its text."
    )


def describe_trust(one: MappedReading) -> str:
    """Say in a sentence how well the picture of a reading can be trusted."""
    trust = one.trust
    kept = "" if trust.kept is None else f"{percent(trust.kept, 0)} of the variance is drawn; "
    told = (
        f"{one.reading}: {kept}of the {NEAR} rows nearest to a row in the vectors, "
        f"{percent(trust.agreement, 0)} are among its {NEAR} nearest in the picture "
        f"({percent(trust.by_chance)} by chance)"
    )
    if trust.same_label is None or trust.same_label_drawn is None:
        return f"{told}."
    same, drawn = percent(trust.same_label, 0), percent(trust.same_label_drawn, 0)
    return f"{told}; of those in the vectors {same} have its label, of those drawn {drawn}."


def list_readings(found: RowMap) -> Iterator[tuple[str, ...]]:
    """Yield a row for each reading, as `HEADERS` name the columns."""
    for one in found.readings:
        trust = one.trust
        kept, same, drawn = (
            "" if value is None else percent(value)
            for value in (trust.kept, trust.same_label, trust.same_label_drawn)
        )
        yield one.reading, kept, percent(trust.agreement), percent(trust.by_chance), same, drawn
