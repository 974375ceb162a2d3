"""The texts on which the heads of a run disagree most: where a choice between them matters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from heads.pipeline.runs import asked as question
from heads.pipeline.runs.cell import kept, said
from heads.pipeline.runs.folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A text and what each head says of it.

    Attributes:
        line: Where it stands in the file; 0 where that is not known.
        text: The text.
        pair: The second text, or nothing.
        label: Its class.
        answers: For each head the class that it answers and how sure it is (0 to 1).
        share: The share of heads that do not give the commonest answer.
    """

    line: int
    text: str
    pair: str
    label: str
    answers: tuple[tuple[str, str, float], ...]
    share: float


def disagreements(
    run: RunFolder, names: Sequence[str] = (), most: int = 20
) -> tuple[Disagreement, ...]:
    """The texts of the first seed's test rows on which most heads part, the surest heads first.

    Args:
        names: Which heads; all that are done, if none is named.

    Raises:
        DataError: The run is broken.
    """
    asked = question.load(run)
    heads = [
        (name, said(run, number, name))
        for number, name in enumerate(asked.recipes)
        if (not names or name in names) and kept(run, number)
    ]
    if len(heads) < 2:
        return ()
    corpus, rows = asked.corpus, heads[0][1].answers.rows[0].tolist()
    answers = [one.answers.classes[0].tolist() for _, one in heads]
    sure = [one.confidence[0].tolist() for _, one in heads]
    found = []
    for place in range(len(rows)):
        commonest = Counter(each[place] for each in answers).most_common(1)[0][1]
        if commonest < len(heads):
            doubt = 1 - commonest / len(heads)
            found.append((-doubt, -sum(each[place] for each in sure), place))
    return tuple(
        Disagreement(
            line=corpus.lines[rows[place]] if corpus.lines else 0,
            text=corpus.texts[rows[place]],
            pair=corpus.pairs[rows[place]] if corpus.pairs else "",
            label=corpus.classes[corpus.targets[rows[place]][0]],
            answers=tuple(
                (name, corpus.classes[own[place]], confidence[place])
                for (name, _), own, confidence in zip(heads, answers, sure, strict=True)
            ),
            share=-doubt,
        )
        for doubt, _, place in sorted(found)[:most]
    )
