"""Draw the rows of a file as points under several readings (recipes without their heads).

Legend: n rows, w width of a reading, k nearest rows.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from heads import display, interruption, plugins
from heads.backbone.backbone import Backbone
from heads.backbone.given import is_given, named
from heads.backbone.loading import loading
from heads.caching import place_told, replacing, writing
from heads.data.corpus import Corpus
from heads.data.dataset import Data, data_of
from heads.data.samples import SAMPLES
from heads.data.sources import open_source
from heads.errors import DataError, LimitError, RecipeError
from heads.events import Progress
from heads.features.extraction import FeatureMatrices, extract
from heads.features.store import given_features
from heads.interfaces.views.format import counted, percent, percent_or_blank
from heads.interfaces.views.sections import find_subject
from heads.parts.poolings import GIVEN
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import ProblemType
from heads.rng import IsolatedRng
from heads.runs import spec
from heads.runs.cells import answers_of_cell
from heads.runs.drill_down import label_of, once, spelled
from heads.runs.features import scored_rows
from heads.runs.folder import find
from heads.runs.leaderboard import Leaderboard, leaderboard
from heads.settings import current_limits

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame
    from plotly.graph_objects import Figure

Method = Literal["pca", "tsne"]
MOST_ROWS: Mapping[str, int] = {"pca": 10_000, "tsne": 5_000}
MOST_READINGS = 4
NEAR = 10  # rows, whose agreement is told
SAMPLED = 2_000  # rows whose nearest ones are looked for
SEED = 0  # draws rows, and begins t-SNE
HEADERS = (
    "Reading", "Variance kept", "Nearest kept", "By chance", "Same label near", "In the picture",
)  # fmt: skip
KEY = (
    f"Nearest kept: of the {NEAR} rows nearest in the vectors, the share that is among the {NEAR} "
    "nearest in the picture. Same label near: of the rows nearest in the vectors, the share with "
    "the row's own label; in the picture: of those nearest there."
)
METHODS = {"pca": "principal components", "tsne": "t-SNE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The agreement of a picture with the vectors on which rows are near each other."""

    kept: float | None  # the fraction of the vectors' variance that is drawn; None of t-SNE
    agreement: float  # the fraction of the ten nearest rows that are the ten nearest in the picture
    by_chance: float  # that fraction in a picture of shuffled rows
    # the fraction of the ten nearest rows with the row's label; None for numbers
    same_label: float | None
    same_label_drawn: float | None  # that fraction in the picture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedReading:
    """The rows under one reading."""

    reading: str  # such as mean or cls@3
    width: int  # the width of its vectors
    x: tuple[float, ...]  # (n,), the first coordinate of each row
    y: tuple[float, ...]  # (n,), the second
    trust: Trust  # how well the picture shows which vectors are near each other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowMap(display.Displayed):
    """The rows of a file as points, under one reading or several."""

    data: str
    model: str
    method: Method
    rows: tuple[int, ...]  # the numbers of the drawn rows in the file, from 0
    lines: tuple[int, ...]  # on which each begins in the file; empty where that is not known
    texts: tuple[str, ...]
    pairs: tuple[str, ...]  # the second texts; empty where rows have one text
    labels: tuple[str, ...]
    numbers: tuple[float, ...]  # the labels where these are numbers, else empty
    problem: ProblemType
    head: str  # the head of the run whose answers are known; "" without one
    answers: tuple[str, ...]  # its out-of-sample answers; "" where there is none
    readings: tuple[MappedReading, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """Return one line: all texts would fill thousands."""
        names = ", ".join(mapped.reading for mapped in self.readings)
        return f"<RowMap {self.data}: {len(self.rows):,} rows under {names}>"

    def to_pandas(self) -> "DataFrame":
        """Return a row per point: number, line, text, label, answer, and coordinates."""
        import pandas

        columns: dict[str, Sequence[Any]] = {
            "row": self.rows,
            "line": self.lines,
            "text": self.texts,
            "pair": self.pairs,
            "label": self.numbers or self.labels,
            "answer": [answer or None for answer in self.answers],
        }
        for mapped in self.readings:
            columns |= dict(zip(axes(mapped.reading), (mapped.x, mapped.y), strict=True))
        return pandas.DataFrame({name: list(cells) for name, cells in columns.items() if cells})

    def save(self, path: str | Path) -> Path:
        """Write coordinates, texts, labels and answers as one Parquet file.

        Embedding Atlas opens it: ``embedding-atlas map.parquet --text text --x x_mean --y y_mean``.

        Raises:
            DataError: Its name does not end in .parquet, or the disk does not take it.
        """
        path = Path(path)
        if path.suffix.lower() != ".parquet":
            raise DataError(f"{path.name} is no Parquet file.", "Let its name end in .parquet.")
        table = self.to_pandas()
        with writing(place_told(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as unfinished:
                table.to_parquet(unfinished, index=False)
        return path

    def plot(self) -> "Figure":
        """Return the readings side by side, coloured by label, as a figure of Plotly."""
        from heads.interfaces.result import build_plotly_figure

        return build_plotly_figure(plugins.load("heads.extras.maps.chart:draw_map")(self))

    def describe(self) -> display.Description:
        """Return what shell and notebook show: how well each picture can be trusted."""
        table = display.Table(headers=HEADERS, rows=tuple(list_readings(self)), note=KEY)
        return display.Description(title=summarize(self), blocks=(table, *self.notes))

    def as_json(self) -> dict[str, Any]:
        """Return the map without its rows: the answer of `heads map --json`."""
        readings = [
            {"reading": own.reading, "width": own.width, "columns": axes(own.reading)}
            | asdict(own.trust)
            for own in self.readings
        ]
        values = {"data": self.data, "model": self.model, "method": self.method}
        values |= {"rows": len(self.rows), "head": self.head or None}
        return values | {"readings": readings, "notes": list(self.notes)}


def axes(reading: str) -> tuple[str, str]:
    """Return the columns that hold the coordinates of a reading.

    >>> axes("cls@cat4")
    ('x_cls_cat4', 'y_cls_cat4')
    """
    name = re.sub(r"\W+", "_", reading).strip("_")
    return f"x_{name}", f"y_{name}"


# --- In words.


def summarize(row_map: RowMap) -> str:
    """Say in a sentence what is drawn."""
    rows = f"{counted(len(row_map.rows), 'row')} of {row_map.data}"
    how = "as they were given" if is_given(row_map.model) else f"as {row_map.model} reads them"
    return f"{rows} {how}, by {METHODS[row_map.method]}."


def describe_trust(mapped: MappedReading) -> str:
    """Say in a sentence how well the picture of a reading can be trusted."""
    trust = mapped.trust
    kept = "" if trust.kept is None else f"{percent(trust.kept, 0)} of the variance is drawn; "
    near = (
        f"{mapped.reading}: {kept}of the {NEAR} rows nearest to a row in the vectors, "
        f"{percent(trust.agreement, 0)} are among its {NEAR} nearest in the picture "
        f"({percent(trust.by_chance)} by chance)"
    )
    if trust.same_label is None or trust.same_label_drawn is None:
        return f"{near}."
    same, drawn = percent(trust.same_label, 0), percent(trust.same_label_drawn, 0)
    return f"{near}; of those in the vectors {same} have its label, of those drawn {drawn}."


def list_readings(row_map: RowMap) -> Iterator[tuple[str, ...]]:
    """Yield a row for each reading, as `HEADERS` name the columns."""
    for mapped in row_map.readings:
        trust = mapped.trust
        fractions = (trust.kept, trust.agreement, trust.by_chance)
        fractions += (trust.same_label, trust.same_label_drawn)
        yield mapped.reading, *map(percent_or_blank, fractions)


# --- From rows to points.


def iter_row_map(
    data: str | Path | Data | Leaderboard,
    readings: Sequence[str] | None,
    *,
    method: Method,
    most: int,
    model: str,
) -> Generator[Progress, None, RowMap]:
    """Yield the progress of `heads.row_map`, and return the map."""
    source = _load_source(data) if isinstance(data, str | Path) else data
    run: spec.RunSpec | None = None
    if isinstance(source, Leaderboard):
        default = readings_of(source, source.recommendation.name or source.best)
        run = spec.load(source.folder)
        corpus, model = run.corpus, source.model
    else:
        corpus = source.corpus
        default = (GIVEN.name,) if corpus.vectors else ("mean", "cls")
        model = named(corpus.vectors.width) if corpus.vectors else model
    chosen = _select_readings(default if readings is None else readings)
    rows = list(range(len(corpus)))
    if len(rows) > (most := _check_most(method, most)):
        rng = torch.Generator().manual_seed(SEED)
        rows = sorted(torch.randperm(len(rows), generator=rng)[:most].tolist())
    backbone = yield from loading(model)
    vectors = yield from _iter_vectors(list(chosen.values()), corpus, rows, backbone, run)
    labels = [label_of(corpus, row) for row in rows]
    mapped = []
    for name in chosen:
        yield Progress(says=f"Drawing {name}", share=0.9)
        matrix = vectors.matrix(name).float()[vectors.index].numpy()
        mapped.append(_map_reading(name, matrix, [] if corpus.numbers else labels, method))
    head, answers = _load_answers(source) if isinstance(source, Leaderboard) else ("", {})
    return RowMap(
        data=corpus.name,
        model=backbone.id,
        method=method,
        rows=tuple(rows),
        lines=tuple(corpus.lines[row] for row in rows) if corpus.lines else (),
        texts=tuple(corpus.texts[row] for row in rows),
        pairs=tuple(corpus.pairs[row] for row in rows) if corpus.pairs else (),
        labels=tuple(labels),
        numbers=tuple(corpus.numbers[row] for row in rows) if corpus.numbers else (),
        problem=corpus.problem,
        head=head,
        answers=tuple(answers.get(row, "") for row in rows) if head else (),
        readings=tuple(mapped),
        notes=tuple(_iter_notes(corpus, rows, method)),
    )


def _load_source(name: str | Path) -> Data | Leaderboard:
    """Return the sample, file or run of that name; in public no file."""
    limits = current_limits()
    path = Path(name)
    is_file = not limits.public and path.exists() and not (path / "run.json").is_file()
    if str(name) in SAMPLES or is_file:
        table, title = open_source(name)
        return data_of(table, name=title)
    try:
        return leaderboard(find(str(name), is_public=limits.public))
    except DataError:
        what = f"There is no run, no sample and no file called {str(name)[:80]}."
        raise DataError(what, "List runs with: heads runs") from None


def _iter_vectors(
    readings: Sequence[ResolvedRecipe],
    corpus: Corpus,
    rows: Sequence[int],
    backbone: Backbone,
    run: spec.RunSpec | None,
) -> Generator[Progress, None, FeatureMatrices]:
    """Yield progress and return the vectors of some rows, encoded as the run did, if any."""
    if corpus.vectors is not None:
        return given_features(readings, corpus.vectors.of(rows))
    # Rows of a run are found on disk, where its heads have read all of them with this reading.
    for event in extract(
        readings,
        [corpus.texts[row] for row in rows],
        [corpus.pairs[row] for row in rows] if corpus.pairs else (),
        backbone,
        run.config.precision if run else "exact",
        scored_rows(run) if run and len(rows) == len(corpus) else (),
    ):
        if isinstance(event, FeatureMatrices):
            return event
        yield event
    raise AssertionError("the features come last")


def _select_readings(names: Sequence[str]) -> dict[str, ResolvedRecipe]:
    """Resolve at most MOST_READINGS fixed readings; a whole recipe stands for its reading."""
    selected: dict[str, ResolvedRecipe] = {}
    for name in [names] if isinstance(names, str) else names:
        pooling, sign, options = name.partition("?")  # options stand behind the head
        resolved = resolve(name if "+" in name else f"{pooling}+linear{sign}{options}")
        if resolved.learns_to_read or resolved.is_tuned or resolved.needs_states or resolved.pair:
            what = f"{name} is no reading of the base model as it is."
            raise RecipeError(what, "Name a fixed pooling of its layers, such as mean or cls@3.")
        selected[resolved.reading] = resolved
    if not selected:
        raise RecipeError("No reading is chosen.", "Choose at least one, for example mean.")
    if len(selected) > MOST_READINGS:
        what = f"{len(selected)} readings are chosen; at most {MOST_READINGS} stand side by side."
        raise LimitError(what, "Take some away.")
    return selected


def readings_of(board: Leaderboard, head: str) -> list[str]:
    """Return two fixed readings of a run: that of a head, and that of the best other one."""
    readings = list[str]()
    for name in [head, *(cell.name for cell in board.cells if not cell.is_baseline)]:
        with suppress(RecipeError):
            (reading,) = _select_readings([name])
            readings += [reading] * (reading not in readings)
    return readings[:2]


def can_be_drawn(board: Leaderboard) -> bool:
    """Return whether a run has fixed readings, and no more rows than a map holds."""
    head = find_subject(board).head
    return board.rows <= MOST_ROWS["pca"] and bool(readings_of(board, head))


def _check_most(method: Method, most: int) -> int:
    """Return how many rows are drawn at most; raise HeadsError for a wrong method or number."""
    if method not in MOST_ROWS:
        raise DataError(f"There is no projection '{method}'.", "There are: pca, tsne.")
    if most > MOST_ROWS[method]:
        what = f"{most:,} rows are more than the {MOST_ROWS[method]:,} that {method} draws."
        raise LimitError(what, "Ask for fewer.")
    if most < 0:
        raise DataError(f"{most} is no number of rows.", "Leave it out, or ask for some.")
    return most or MOST_ROWS[method]


def _iter_notes(corpus: Corpus, rows: Sequence[int], method: Method) -> Iterator[str]:
    if len(rows) < len(corpus):
        yield f"{len(rows):,} of {len(corpus):,} rows are drawn, by lot."
    if method == "tsne":
        yield "t-SNE keeps who is near, but neither distances nor the size of groups."
    if corpus.pairs:
        yield "Each pair is read as one sequence."


def _load_answers(board: Leaderboard) -> tuple[str, dict[int, str]]:
    """Return the recommended or best head, and its answers on rows it has not learned from."""
    name = board.recommendation.name or board.best
    if not name:
        return "", {}
    run = spec.load(board.folder)
    answers = once(answers_of_cell(board.folder, run.names.index(name), name), run.splits)
    texts = (spelled(run.corpus, answer) for answer in answers.given)
    return name, dict(zip(answers.rows.tolist(), texts, strict=True))


def _map_reading(
    name: str, vectors: "NDArray[Any]", labels: Sequence[str], method: Method
) -> MappedReading:
    """Project the vectors (n, w) of a reading to points (n, 2), and measure what is lost."""
    if len(vectors) < 3:
        raise DataError(f"{len(vectors)} rows are no map.", "Take at least 3.")
    interruption.check()
    points, kept = _project(vectors, method)
    return MappedReading(
        reading=name,
        width=vectors.shape[1],
        x=tuple(points[:, 0].tolist()),
        y=tuple(points[:, 1].tolist()),
        trust=_measure_trust(vectors, points, labels, kept),
    )


def _project(vectors: "NDArray[Any]", method: Method) -> tuple["NDArray[Any]", float | None]:
    """Return points (n, 2), and the fraction of the variance that they have."""
    from sklearn.decomposition import PCA

    if not vectors.std(axis=0).any():  # no vector differs from another
        return vectors[:, :2] - vectors[:, :2], 1.0
    if method == "pca":
        fitted = PCA(n_components=2, random_state=SEED).fit(vectors.astype("float64"))
        return fitted.transform(vectors), float(fitted.explained_variance_ratio_.sum())
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    near = min(30.0, (len(vectors) - 1) / 3)
    # Its threads wait for each other by spinning: where others compute, two are slower than one.
    with IsolatedRng().rolling(), threadpool_limits(1):
        drawn = TSNE(perplexity=near, init="pca", random_state=SEED).fit_transform(vectors)
    return drawn, None


def _measure_trust(
    vectors: "NDArray[Any]", points: "NDArray[Any]", labels: Sequence[str], kept: float | None
) -> Trust:
    """Measure on some of the rows how well points show which vectors are near."""
    n, k = len(vectors), min(NEAR, len(vectors) - 1)
    rows = torch.randperm(n, generator=torch.Generator().manual_seed(SEED))[:SAMPLED].tolist()
    near, drawn = (_find_nearest(space, rows, k) for space in (vectors, points))
    common = sum(len(set(a) & set(b)) for a, b in zip(near, drawn, strict=True))
    return Trust(
        kept=kept,
        agreement=common / (k * len(rows)),
        by_chance=k / (n - 1),
        same_label=_same_label(near, rows, labels) if labels else None,
        same_label_drawn=_same_label(drawn, rows, labels) if labels else None,
    )


def _find_nearest(space: "NDArray[Any]", rows: Sequence[int], k: int) -> list[list[int]]:
    """Return the k other rows nearest to each row."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=k + 1).fit(space).kneighbors(space[list(rows)])[1]
    # A row that another equals need not be its own nearest one.
    pairs = zip(rows, near.tolist(), strict=True)
    return [[int(other) for other in others if other != row][:k] for row, others in pairs]


def _same_label(near: list[list[int]], rows: Sequence[int], labels: Sequence[str]) -> float:
    """Return the mean fraction of near rows that have the label of their row."""
    pairs = zip(rows, near, strict=True)
    fractions = [sum(labels[o] == labels[row] for o in own) / len(own) for row, own in pairs]
    return sum(fractions) / len(fractions)
