"""The texts on which the heads of a run disagree most: where a choice between them matters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.data.corpus import Corpus
from heads.data.splits import Splits
from heads.pipeline.runs import asked as question
from heads.pipeline.runs.cell import Said, kept, said
from heads.pipeline.runs.folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A text and what each head says of it.

    Attributes:
        line: Where it stands in the file; 0 where that is not known.
        text: The text.
        pair: The second text, or nothing.
        label: Its class.
        answers: For each head what it answers and how sure it is (0 to 1); of several labels,
            and of numbers, it does not say.
        share: The share of heads that do not give the commonest answer; of numbers, how far
            their answers scatter (standard deviation).
    """

    line: int
    text: str
    pair: str
    label: str
    answers: tuple[tuple[str, str, float | None], ...]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Once:
    """What a head said of rows, each asked once.

    Attributes:
        rows: (n,), their numbers.
        given: (n,) or (n, c), its answers.
        sure: (n,), how sure it was; None where it does not say.
    """

    rows: Tensor
    given: Tensor
    sure: Tensor | None


def once(told: Said, splits: Splits) -> Once:
    """The answers of the first seed; without a test set, of all folds of the first repetition."""
    repetitions = splits.repetition or tuple(range(len(splits)))
    first = [number for number, one in enumerate(repetitions) if one == 0]
    sure = [told.confidence[number] for number in first] if told.confidence else []
    return Once(
        rows=torch.cat([told.answers.rows[number] for number in first]),
        given=torch.cat([told.answers.given[number] for number in first]),
        sure=torch.cat(sure) if sure else None,
    )


def disagreements(
    run: RunFolder, names: Sequence[str] = (), most: int = 20
) -> tuple[Disagreement, ...]:
    """The texts on which most heads part, of those that `once` has, the surest heads first.

    Args:
        names: Which heads; all that are done, if none is named.

    Raises:
        DataError: The run is broken.
    """
    asked = question.load(run)
    heads = [
        (name, once(said(run, number, name), asked.splits))
        for number, name in enumerate(asked.recipes)
        if (not names or name in names) and kept(run, number)
    ]
    if len(heads) < 2:
        return ()
    rows = heads[0][1].rows.tolist()
    given = [one.given for _, one in heads]
    sure = [None if one.sure is None else one.sure.tolist() for _, one in heads]
    ranked = _scattered(given) if asked.corpus.kind == "number" else _parted(given, sure)
    told = [[_said(asked.corpus, answer) for answer in own] for own in given]
    return tuple(
        Disagreement(
            line=asked.corpus.lines[rows[place]] if asked.corpus.lines else 0,
            text=asked.corpus.texts[rows[place]],
            pair=asked.corpus.pairs[rows[place]] if asked.corpus.pairs else "",
            label=label_of(asked.corpus, rows[place]),
            answers=tuple(
                (name, own[place], confidence[place] if confidence else None)
                for (name, _), own, confidence in zip(heads, told, sure, strict=True)
            ),
            share=share,
        )
        for share, place in ranked[:most]
    )


def _scattered(given: Sequence[Tensor]) -> list[tuple[float, int]]:
    """How far the numbers scatter on each row, the widest first."""
    spread = torch.stack(list(given)).std(dim=0)
    return [(float(spread[place]), place) for place in spread.argsort(descending=True).tolist()]


def _parted(given: Sequence[Tensor], sure: Sequence[list[float] | None]) -> list[tuple[float, int]]:
    """The share of heads beside the commonest answer, where there are any, the most first."""
    answers = [[tuple(one) if isinstance(one, list) else one for one in g.tolist()] for g in given]
    found = []
    for place in range(len(answers[0])):
        commonest = Counter(each[place] for each in answers).most_common(1)[0][1]
        if commonest < len(answers):
            certainty = sum(each[place] for each in sure if each)
            found.append((commonest / len(answers) - 1, -certainty, place))
    return [(-doubt, place) for doubt, _, place in sorted(found)]


def _said(corpus: Corpus, answer: Tensor) -> str:
    """An answer as one reads it."""
    if corpus.kind == "number":
        return f"{float(answer):.3g}"
    if corpus.kind == "one":
        return corpus.classes[int(answer)]
    return _joined(corpus, answer.nonzero().flatten().tolist())


def label_of(corpus: Corpus, row: int) -> str:
    """What a row is labelled with, as one reads it."""
    if corpus.kind == "number":
        return f"{corpus.numbers[row]:.3g}"
    return _joined(corpus, corpus.targets[row])


def _joined(corpus: Corpus, numbers: Sequence[int]) -> str:
    return ", ".join(corpus.classes[number] for number in numbers) or "(none)"
