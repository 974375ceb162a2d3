"""Comparisons and intervals of a run's cells: computed once, saved in its folder and read there."""

import contextlib
import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from heads.caching import own_code
from heads.errors import DataError
from heads.evaluation import intervals, significance
from heads.evaluation.predictions import Answers, EvaluationTask
from heads.evaluation.significance import Comparisons
from heads.runs.folder import RunFolder

Result = TypeVar("Result")

FILE = "comparisons.json"
VERSION = 1  # of the form of the file
CODE = tuple(
    f"evaluation/{name}"
    for name in (
        "intervals", "metrics", "predictions", "selection_bias", "significance",
        "statistics",
    )
)  # fmt: skip


class SavedComparisons:
    """What the cells of a run came to beside each other, saved by a digest of its inputs.

    The digest is of answers, targets, settings and code. So what is missing, of other answers, of
    another version or unreadable is computed again.
    """

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._used = dict[str, Any]()
        self._saved = dict[str, Any]()
        self._is_new = False
        with contextlib.suppress(DataError):
            values = run.read(FILE) or {}
            if values.get("version") == VERSION and isinstance(values.get("entries"), dict):
                self._saved = values["entries"]

    def compare(
        self,
        answers: Sequence[Answers],
        task: EvaluationTask,
        *,
        reference: str,
        tuned: Collection[str] = (),
        seed: int = 0,
    ) -> Comparisons:
        """Return `significance.compare` of these arguments."""

        def compute() -> dict[str, Any]:
            comparisons = significance.compare(
                answers, task, reference=reference, tuned=tuned, seed=seed
            )
            return comparisons.as_json()

        key = _digest(answers, task, "comparisons", reference, sorted(tuned), seed)
        return self._find(key, compute, Comparisons.from_json)

    def score_intervals(
        self, answers: Sequence[Answers], task: EvaluationTask, tuned: Collection[str] = ()
    ) -> list[tuple[float, float]]:
        """Return `intervals.score_intervals` of these arguments."""

        def read(ends: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
            return [(float(low), float(high)) for low, high in ends]

        key = _digest(answers, task, "intervals", sorted(tuned))
        return self._find(key, lambda: intervals.score_intervals(answers, task, tuned), read)

    def save(self, *, prune: bool = False) -> None:
        """Save what was computed if the run is over; drop what was not used since if `prune`."""
        if self._is_new and (self._run.path / "end.json").is_file():
            entries = self._used if prune else self._saved | self._used
            with contextlib.suppress(DataError):
                self._run.write(FILE, {"version": VERSION, "entries": entries})

    def _find(self, key: str, compute: Callable[[], Any], read: Callable[[Any], Result]) -> Result:
        if key in self._saved:
            with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                result = read(self._saved[key])
                self._used[key] = self._saved[key]
                return result
        self._is_new, self._used[key] = True, compute()
        return read(self._used[key])


def _digest(answers: Sequence[Answers], task: EvaluationTask, *facts: object) -> str:
    """Return the digest of all that a comparison is computed from."""
    digest = hashlib.sha256(own_code(*CODE).encode())
    known = (task.problem.name, task.ordered, task.ranked_by, len(task.classes), *facts)
    names = [(each.name, each.is_random, each.repetition) for each in answers]
    digest.update(repr((known, names)).encode())
    tensors = [task.targets, task.groups, *([] if task.texts is None else [task.texts])]
    for tensor in (*tensors, *(t for each in answers for t in (*each.rows, *each.given))):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
