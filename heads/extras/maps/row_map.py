"""The rows of a file as points, under several readings: which of them lie near each other.

A reading is a recipe less its head: which tokens of which layer become the vector of a text. A
picture has two dimensions and a vector hundreds, so what is lost is measured as well.
Legend: n rows, w width of a reading, k nearest rows.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from heads import display, interruption, plugins
from heads.backbone.backbone import Backbone
from heads.backbone.given import named
from heads.backbone.loading import loading
from heads.caching import place_told, write, writing
from heads.data.corpus import Corpus
from heads.data.dataset import Data
from heads.errors import DataError, LimitError, RecipeError
from heads.events import Progress
from heads.features.extraction import FeatureMatrices, extract
from heads.features.given import given_features
from heads.parts.poolings import GIVEN
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import ProblemType
from heads.rng import IsolatedRng
from heads.runs import spec
from heads.runs.cells import answers_of_cell
from heads.runs.drill_down import label_of, once, spelled
from heads.runs.leaderboard import Leaderboard
from heads.runs.preparation import scored_rows
from heads.settings import Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame
    from plotly.graph_objects import Figure

Method = Literal["pca", "tsne"]
MOST_ROWS: Mapping[str, int] = {"pca": 10_000, "tsne": 5_000}
MOST_READINGS = 4
NEAR = 10  # rows, whose agreement is told
ASKED = 2_000  # rows whose nearest ones are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How well a picture shows what is near in the vectors.

    Attributes:
        kept: The share of the vectors' variance that the picture has; None of t-SNE, which keeps
            neighbours and no distances.
        agreement: Of the ten rows nearest in the vectors, the share that is among the ten nearest
            in the picture.
        by_chance: The same of a picture with its rows in any other order.
        same_label: Of the ten nearest in the vectors, the share with the row's own label; None
            where labels are numbers.
        same_label_drawn: The same in the picture.
    """

    kept: float | None
    agreement: float
    by_chance: float
    same_label: float | None
    same_label_drawn: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedReading:
    """The rows under one reading.

    Attributes:
        reading: Such as mean or cls@3.
        width: Of its vectors.
        x: (n,), a coordinate of each row.
        y: (n,), the other.
        trust: How well the picture shows what is near.
    """

    reading: str
    width: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowMap(display.Displayed):
    """The rows of a file as points, under one reading or several.

    Attributes:
        data: The name of the data.
        model: The base model.
        method: pca, the plane of most variance; or tsne.
        rows: The numbers of the rows that are drawn, from 0, as the file has them.
        lines: On which line of the file each begins; empty where that is not known.
        texts: Their texts.
        pairs: Their second texts; empty where rows have one.
        labels: What each is labelled with, as one reads it.
        numbers: The same as numbers, where labels are numbers; else empty.
        problem: What rows are labelled with.
        head: The head of the run whose answers are known; empty without one.
        answers: What it answered on each row, asked when it had not learned from it; empty where it
            was not asked, or there is no head.
        readings: The rows under each.
        notes: What one should know, a sentence each.
    """

    data: str
    model: str
    method: Method
    rows: tuple[int, ...]
    lines: tuple[int, ...]
    texts: tuple[str, ...]
    pairs: tuple[str, ...]
    labels: tuple[str, ...]
    numbers: tuple[float, ...]
    problem: ProblemType
    head: str
    answers: tuple[str, ...]
    readings: tuple[MappedReading, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """In one line: all texts would fill thousands."""
        names = ", ".join(one.reading for one in self.readings)
        return f"<RowMap {self.data}: {len(self.rows):,} rows under {names}>"

    def to_pandas(self) -> "DataFrame":
        """A row a point: number and line, text, label, answer, and coordinates by reading."""
        columns: dict[str, Sequence[Any]] = {
            "row": self.rows,
            "line": self.lines,
            "text": self.texts,
            "pair": self.pairs,
            "label": self.numbers or self.labels,
            "answer": [answer or None for answer in self.answers],
        }
        for one in self.readings:
            columns |= dict(zip(axes(one.reading), (one.x, one.y), strict=True))
        import pandas

        return pandas.DataFrame({name: list(own) for name, own in columns.items() if len(own)})

    def save(self, path: str | Path) -> Path:
        """Writes coordinates, texts, labels and answers as one Parquet file.

        Embedding Atlas opens it: ``embedding-atlas map.parquet --text text --x x_mean --y y_mean``.

        Raises:
            DataError: Its name does not end in .parquet, or the disk does not take it.
        """
        place = Path(path)
        if place.suffix.lower() != ".parquet":
            raise DataError(f"{place.name} is no Parquet file.", "Let its name end in .parquet.")
        with writing(place_told(place)):
            write(place, partial(_write_parquet, self.to_pandas()))
        return place

    def plot(self) -> "Figure":
        """Return the readings side by side, coloured by label, as a figure of Plotly."""
        from heads.interfaces.notebook.pictures import build_plotly_figure

        return build_plotly_figure(plugins.load("heads.extras.maps.chart:draw_map")(self))

    def describe(self) -> display.Description:
        """Return what shell and notebook show: how well each picture can be trusted."""
        words = plugins.load("heads.extras.maps.words")
        rows = tuple(words.list_readings(self))
        table = display.Table(headers=words.HEADERS, rows=rows, note=words.KEY)
        return display.Description(title=words.summarize(self), blocks=(table, *self.notes))

    def as_json(self) -> dict[str, Any]:
        """What is known of the map, without its rows: the answer of `heads map --json`."""
        return {
            "data": self.data,
            "model": self.model,
            "method": self.method,
            "rows": len(self.rows),
            "head": self.head or None,
            "readings": [
                {"reading": one.reading, "width": one.width, "columns": axes(one.reading)}
                | asdict(one.trust)
                for one in self.readings
            ],
            "notes": list(self.notes),
        }


def axes(reading: str) -> tuple[str, str]:
    """The columns that hold the coordinates of a reading.

    >>> axes("cls@cat4")
    ('x_cls_cat4', 'y_cls_cat4')
    """
    name = re.sub(r"\W+", "_", reading).strip("_")
    return f"x_{name}", f"y_{name}"


def _write_parquet(table: "DataFrame", place: Path) -> None:
    table.to_parquet(place, index=False)
    place.chmod(0o644)


# --- From rows to points.


def mapping(
    of: Data | Leaderboard,
    readings: Sequence[str] | None,
    *,
    method: Method = "pca",
    model: str,
    most: int = 0,
    seed: int = 0,
    limits: Limits,
) -> Iterator[Progress | RowMap]:
    """What `heads.row_map` does, as a stream: progress, then the map.

    Args:
        model: The base model under data; a run has its own.
        most: How many rows at most; as many as the method draws, if 0.
        seed: Draws the rows, where there are more, and begins t-SNE.
    """
    chosen = _readings(_usual(of) if readings is None else readings)
    asked: spec.RunSpec | None = None
    if isinstance(of, Leaderboard):
        asked = spec.load(of.folder)
        corpus, model = asked.corpus, of.model
    else:
        corpus = of.corpus
        model = named(corpus.vectors.width) if corpus.vectors else model
    rows = _drawn(corpus, _most(method, most), seed)
    backbone = yield from loading(model, limits)
    vectors = yield from _vectors(list(chosen.values()), corpus, rows, backbone, asked)
    labels = [label_of(corpus, row) for row in rows]
    found = []
    for name in chosen:
        yield Progress(says=f"Drawing {name}", share=0.9)
        own = vectors.matrix(name).float()[vectors.index].numpy()
        found.append(_mapped(name, own, labels if not corpus.numbers else [], method, seed))
    head, answers = _answers(of) if isinstance(of, Leaderboard) else ("", {})
    yield RowMap(
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
        readings=tuple(found),
        notes=tuple(_notes(corpus, rows, method)),
    )


def _vectors(
    readings: Sequence[ResolvedRecipe],
    corpus: Corpus,
    rows: Sequence[int],
    backbone: Backbone,
    asked: spec.RunSpec | None,
) -> Generator[Progress, None, FeatureMatrices]:
    """What the readings make of some rows; of a run the question says how they were read."""
    if corpus.vectors is not None:
        return given_features(readings, corpus.vectors.of(rows))
    found: FeatureMatrices | None = None
    # Rows of a run are found on disk, where its heads have read all of them with this reading.
    for event in extract(
        readings,
        [corpus.texts[row] for row in rows],
        [corpus.pairs[row] for row in rows] if corpus.pairs else (),
        backbone,
        asked.config.precision if asked else "exact",
        scored_rows(asked) if asked and len(rows) == len(corpus) else (),
    ):
        if isinstance(event, Progress):
            yield event
        else:
            found = event
    assert found is not None
    return found


def _readings(names: Sequence[str]) -> dict[str, ResolvedRecipe]:
    """Resolve at most so many fixed readings by name; a whole recipe stands for its reading."""
    found: dict[str, ResolvedRecipe] = {}
    for name in [names] if isinstance(names, str) else names:
        pooling, sign, options = name.partition("?")  # options stand behind the head
        resolved = resolve(name if "+" in name else f"{pooling}+linear{sign}{options}")
        if resolved.learns_to_read or resolved.is_tuned or resolved.needs_states or resolved.pair:
            what = f"{name} is no reading of the base model as it is."
            raise RecipeError(what, "Name a fixed pooling of its layers, such as mean or cls@3.")
        found[resolved.reading] = resolved
    if not found:
        raise RecipeError("No reading is chosen.", "Choose at least one, for example mean.")
    if len(found) > MOST_READINGS:
        what = f"{len(found)} readings are chosen; at most {MOST_READINGS} stand side by side."
        raise LimitError(what, "Take some away.")
    return found


def _usual(of: Data | Leaderboard) -> Sequence[str]:
    """The readings that are drawn where none is named."""
    if isinstance(of, Leaderboard):
        return readings_of(of, of.recommendation.name or of.best)
    return (GIVEN.name,) if of.corpus.vectors else ("mean", "cls")


def readings_of(board: Leaderboard, head: str) -> list[str]:
    """Two fixed readings of a run, that of a head first and then that of the best other one."""
    found = list[str]()
    for name in [head, *(cell.name for cell in board.cells if not cell.is_baseline)]:
        with suppress(RecipeError):
            (reading,) = _readings([name])
            found += [reading] * (reading not in found)
    return found[:2]


def _most(method: Method, asked: int) -> int:
    """Return how many rows are drawn at most; raise HeadsError for a wrong method or number."""
    if method not in MOST_ROWS:
        raise DataError(f"There is no projection '{method}'.", "There are: pca, tsne.")
    if asked > MOST_ROWS[method]:
        what = f"{asked:,} rows are more than the {MOST_ROWS[method]:,} that {method} draws."
        raise LimitError(what, "Ask for fewer.")
    if asked < 0:
        raise DataError(f"{asked} is no number of rows.", "Leave it out, or ask for some.")
    return asked or MOST_ROWS[method]


def _drawn(corpus: Corpus, most: int, seed: int) -> list[int]:
    """The rows that are drawn, in their order; of many some, each as likely."""
    if len(corpus) <= most:
        return list(range(len(corpus)))
    rng = torch.Generator().manual_seed(seed)
    return sorted(torch.randperm(len(corpus), generator=rng)[:most].tolist())


def _notes(corpus: Corpus, rows: Sequence[int], method: Method) -> Iterator[str]:
    if len(rows) < len(corpus):
        yield f"{len(rows):,} of {len(corpus):,} rows are drawn, by lot."
    if method == "tsne":
        yield "t-SNE keeps who is near, but neither distances nor the size of groups."
    if corpus.pairs:
        yield "Each pair is read as one sequence."


def _answers(board: Leaderboard) -> tuple[str, dict[int, str]]:
    """The head to use, or the best, and what it answered on rows that it had not learned from."""
    name = board.recommendation.name or board.best
    if not name:
        return "", {}
    asked = spec.load(board.folder)
    told = once(answers_of_cell(board.folder, asked.names.index(name), name), asked.splits)
    given = (spelled(asked.corpus, answer) for answer in told.given)
    return name, dict(zip(told.rows.tolist(), given, strict=True))


def _mapped(
    name: str, vectors: "NDArray[Any]", labels: Sequence[str], method: Method, seed: int
) -> MappedReading:
    """The rows under one reading: vectors (n, w) to points (n, 2), and what is lost."""
    if len(vectors) < 3:
        raise DataError(f"{len(vectors)} rows are no map.", "Take at least 3.")
    interruption.check()
    points, kept = _projected(vectors, method, seed)
    return MappedReading(
        reading=name,
        width=vectors.shape[1],
        x=tuple(points[:, 0].tolist()),
        y=tuple(points[:, 1].tolist()),
        trust=_trust(vectors, points, labels, kept, seed),
    )


def _projected(
    vectors: "NDArray[Any]", method: Method, seed: int
) -> tuple["NDArray[Any]", float | None]:
    """Points (n, 2), and the share of the variance that they have."""
    from sklearn.decomposition import PCA

    if not vectors.std(axis=0).any():  # no vector differs from another
        return vectors[:, :2] - vectors[:, :2], 1.0
    if method == "pca":
        fitted = PCA(n_components=2, random_state=seed).fit(vectors.astype("float64"))
        return fitted.transform(vectors), float(fitted.explained_variance_ratio_.sum())
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    near = min(30.0, (len(vectors) - 1) / 3)
    # Its threads wait for each other by spinning: where others compute, two are slower than one.
    with IsolatedRng().rolling(), threadpool_limits(1):
        drawn = TSNE(perplexity=near, init="pca", random_state=seed).fit_transform(vectors)
    return drawn, None


def _trust(
    vectors: "NDArray[Any]",
    points: "NDArray[Any]",
    labels: Sequence[str],
    kept: float | None,
    seed: int,
) -> Trust:
    """How well points show what is near in the vectors, asked of some of the rows."""
    n, k = len(vectors), min(NEAR, len(vectors) - 1)
    asked = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:ASKED].tolist()
    near, drawn = (_nearest(space, asked, k) for space in (vectors, points))
    common = sum(len(set(a) & set(b)) for a, b in zip(near, drawn, strict=True))
    return Trust(
        kept=kept,
        agreement=common / (k * len(asked)),
        by_chance=k / (n - 1),
        same_label=_same(near, asked, labels),
        same_label_drawn=_same(drawn, asked, labels),
    )


def _nearest(space: "NDArray[Any]", asked: Sequence[int], k: int) -> list[list[int]]:
    """The k rows nearest to each that is asked, itself not among them."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=k + 1).fit(space).kneighbors(space[list(asked)])[1]
    # A row that has a twin need not be its own nearest one.
    return [
        [int(one) for one in own if one != row][:k]
        for row, own in zip(asked, found.tolist(), strict=True)
    ]


def _same(
    near: Sequence[Sequence[int]], asked: Sequence[int], labels: Sequence[str]
) -> float | None:
    """The share of near rows that have the label of the row that they are near to."""
    if not labels:
        return None
    shares = [
        sum(labels[one] == labels[row] for one in own) / len(own)
        for row, own in zip(asked, near, strict=True)
    ]
    return sum(shares) / len(shares)
