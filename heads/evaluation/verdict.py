"""The verdict: what the measures and comparisons of a run allow one to say, in plain English."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from heads.evaluation.details import Measures
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.predictions import BASELINES, MAJORITY, TFIDF
from heads.evaluation.significance import Comparisons, Difference

WIDE = 0.02  # an interval that leaves more than two points open settles little,
FIFTH = 5  # as does one that leaves open more than a fifth of what is wrong yet
POWER_80 = ((3 + 0.84) / 3) ** 2  # rows to find a difference in 4 of 5 runs, at a bar near 3
FEW_GROUPS = 20  # of rows: fewer say little, however many rows they have
FEWEST = 3  # heads, of which the best is chosen
SEEN = 0.002  # less than 0.2 points is not worth the rows that it would take


def judge(
    measures: Mapping[str, Measures], comparisons: Comparisons, *, commonest: str = ""
) -> tuple[str, ...]:
    """The verdict in a few sentences, the first of which stands alone.

    It says that a head is better only where the comparison tells the two apart; that none is,
    is a common answer.

    Args:
        measures: Of every cell, by its name.
        comparisons: Of the same cells.
        commonest: The class that the majority baseline answers, where a row has one.
    """
    first, wide = _first(measures, comparisons)
    sentences = [first, *_baselines(measures, comparisons, commonest)]
    own = measures[comparisons.reference]
    if 0 < comparisons.groups < FEW_GROUPS and own.rows >= 2 * comparisons.groups:
        sentences.append(
            f"The {own.rows:,} tested rows stand in {comparisons.groups} groups, each of them one "
            "piece of evidence: more groups, not more rows, would tell heads apart."
        )
    elif wide is not None and not comparisons.once:
        sentences += _more_rows(wide, own)
    if comparisons.once and _heads(comparisons.to_reference):
        sentences.append(
            "Each head was trained once, which shows nothing of luck: train with 3 seeds to tell "
            "them apart."
        )
    return (*sentences, *_chosen(measures, comparisons))


def _chosen(measures: Mapping[str, Measures], comparisons: Comparisons) -> list[str]:
    """What the highest score is on rows that did not choose it, where that is another."""
    own, heads = measures[comparisons.best], len(_heads(comparisons.to_best)) + 1
    name, found = SCORES[own.metric], comparisons.chosen
    if found is None or heads < FEWEST or name.told(found) == name.told(own.score):
        return []
    told = f"`{comparisons.best}` scores {name.told(own.score)} and was chosen among {heads} heads"
    return [f"{told} on these rows; on rows that do not choose: about {name.told(found)}."]


def _first(
    measures: Mapping[str, Measures], comparisons: Comparisons
) -> tuple[str, Difference | None]:
    """The verdict on the reference, and the comparison that it leaves too open, if one."""
    reference, heads = comparisons.reference, _heads(comparisons.to_reference)
    own = measures[reference]
    name = SCORES[own.metric]
    if not heads:
        between = f"{name.told(own.low)} to {name.told(own.high)}, 95 %"
        return f"`{reference}` {name.reached(own.score)} ({between}).", None
    better = [d for d in heads if d.differs and d.difference > 0]
    if better:
        return _better(max(better, key=lambda d: d.difference), comparisons, name), None
    highest = max(heads, key=lambda d: d.high)
    if highest.high <= 0:
        ahead = f"by {name.gap(-highest.high)} or more (95 %)"
        return f"`{reference}` is better than every other head, {ahead}.", None
    if highest.high <= enough(own.score, name) and not comparisons.once:
        bound = f"no head is better by more than {_bound(highest.high, name)} (95 %)"
        return f"`{reference}` is enough: {bound}.", None
    rows = own.rows
    told = f"No head is shown to be better than `{reference}`"
    if comparisons.once:
        first = f"{told}: what one training of each gives may be luck."
        return first, max(heads, key=lambda d: d.difference)
    bound = f"up to {_bound(highest.high, name)} (95 %)"
    tested = "1 tested row leaves" if rows == 1 else f"{rows:,} tested rows leave"
    first = f"{told}, but {tested} room for {bound}."
    return first, max(heads, key=lambda d: d.difference)


def enough(score: float, name: Metric) -> float:
    """By how much another head may be better before a score is no longer enough.

    A fifth of what is wrong yet, for one who gains less would hardly notice; but two points at
    most, however much is wrong, and never less than what is not worth any rows. Of an error in
    units of the labels a tenth, which is what two points are of a share where 20 % are wrong.

    >>> [round(enough(score, SCORES["accuracy"]), 4) for score in (0.6, 0.95, 0.985, 0.999)]
    [0.02, 0.01, 0.003, 0.002]
    """
    left = name.high - score
    if name.scale == "error":
        return left / 10
    return min(WIDE, max(SEEN, left / FIFTH))


def _bound(high: float, name: Metric) -> str:
    """An upper bound as every table rounds it, but never 0."""
    return name.gap(high if name.scale == "error" else max(high, 0.001))


def _better(winner: Difference, comparisons: Comparisons, name: Metric) -> str:
    between = f"{name.between(winner.low, winner.high)}, 95 %"
    by = f"by {name.gap(winner.difference)} ({between})"
    first = f"`{winner.name}` is better than `{winner.other}` {by}"
    if winner.name != comparisons.best:
        return f"{first}; `{comparisons.best}` scores highest, but less surely."
    near = sum(not d.differs for d in _heads(comparisons.to_best))
    if not near:
        return f"{first}, and than every other head."
    others = "1 other head is" if near == 1 else f"{near} other heads are"
    return f"{first}; {others} not distinguishable from it."


def _baselines(
    measures: Mapping[str, Measures], comparisons: Comparisons, commonest: str
) -> list[str]:
    """Says it where neither the best head nor the reference beats a baseline; the stronger one."""
    to_best = {d.name: d for d in comparisons.to_best}
    compared = (*comparisons.to_best, *comparisons.to_reference)
    # That heads as they were trained beat a baseline needs no second training.
    beaten = {d.name for d in compared if d.high < 0}
    unbeaten = [to_best[name] for name in BASELINES if name in to_best and name not in beaten]
    if not unbeaten:
        return []
    strongest = max(unbeaten, key=lambda d: d.difference)
    own = measures[strongest.name]
    name = SCORES[own.metric]
    scored = name.told(own.score)
    if strongest.name == MAJORITY:
        what = f"{_always(own, commonest)} (majority, {scored})"
    else:
        solved = "ridge" if _is_number(own) else "logistic"
        what = f"TF-IDF + {solved} regression ({scored})"
    if strongest.differs:
        by = f"by {name.gap(strongest.difference)}"
        return [f"No head is better than {what}: it beats the best one, `{strongest.other}`, {by}."]
    if strongest.difference >= 0:
        return [f"No head is better than {what}."]
    by = name.gap(-strongest.difference)
    return [
        f"No head is shown to be better than {what}: the best one leads by {by}, within chance."
    ]


def _always(own: Measures, commonest: str) -> str:
    if _is_number(own):
        return "always answering the mean"
    if "micro_f1" in own.values:
        return "always giving the commonest labels"
    return f"always answering '{commonest}'" if commonest else "always the same answer"


def _is_number(own: Measures) -> bool:
    return "spearman" in own.values


def _more_rows(seen: Difference, own: Measures) -> list[str]:
    """How many tested rows would settle a difference of the size seen, in a sentence."""
    needed = rows_to_settle(seen, own)
    if not needed:
        return []
    by = SCORES[own.metric].gap(seen.difference)
    lead = f"The lead seen, `{seen.name}` by {by}"
    return [f"{lead}, would take about {needed:,} tested rows to settle."]


def rows_to_settle(seen: Difference, own: Measures) -> int:
    """About how many tested rows would settle a difference of the size seen, at 80 % power.

    0 where it is not worth any, or where there are enough.
    """
    least = SEEN * abs(own.score) if SCORES[own.metric].scale == "error" else SEEN
    if seen.difference < least:
        return 0
    needed = own.rows * (seen.high - seen.low) ** 2 / 4 / seen.difference**2 * POWER_80
    if needed <= own.rows:
        return 0
    scale = 10 ** (len(str(int(needed))) - 2)  # two figures: it is a rough estimate
    return ceil(needed / scale) * scale


def _heads(differences: tuple[Difference, ...]) -> list[Difference]:
    return [d for d in differences if d.name not in BASELINES]


# --- The one head to use, and how sure that is.

FEWEST_TESTED = 50  # rows; fewer are too few to choose on


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The head to use, the same wherever one is named.

    Attributes:
        name: Which; empty where none can be recommended.
        use: The same for a reader.
        because: What it reaches, beside what guessing and counting words reach.
        how_sure: Which others cannot be told apart from it, and what would tell them apart.
        alike: The other heads that cannot be told apart from it.
    """

    name: str
    use: str
    because: str
    how_sure: str
    alike: tuple[str, ...] = ()


def recommend(measures: Mapping[str, Measures], comparisons: Comparisons | None) -> Recommendation:
    """Recommends a head, or says why none.

    It is the head that is shown to be better than the reference, else the reference itself, which
    is simple. One that is not shown to be better than always guessing the commonest answer is
    never recommended, and on fewer than 50 tested rows nothing is.
    """
    if comparisons is None:
        return Recommendation(name="", use="No head is done yet.", because="", how_sure="")
    name = winner(comparisons)
    own = measures[name]
    metric = SCORES[own.metric]
    because = _because(measures, name)
    if own.rows < FEWEST_TESTED:
        use = "None yet: too few rows to choose."
        sure = f"{_tested(own.rows)} cannot tell heads apart; {FEWEST_TESTED} are the least."
        return Recommendation(name="", use=use, because=because, how_sure=sure)
    if not _beats(MAJORITY, name, measures, comparisons):
        use = f"None: no head is shown to beat {_guessing(own)}."
        sure = "More rows, or other labels, may change that."
        return Recommendation(name="", use=use, because=because, how_sure=sure)
    apart = _told_apart(name, comparisons)
    others = [one for one in measures if one not in BASELINES and one != name]
    alike = tuple(one for one in others if one not in apart)
    _, wide = _first(measures, comparisons)
    needed = rows_to_settle(wide, own) if wide and name == wide.other and alike else 0
    more = (
        f"; about {needed:,} would settle {metric.gap(wide.difference)}" if needed and wide else ""
    )
    is_plain = _beats(TFIDF, name, measures, comparisons)
    words = "" if is_plain else ". It is not shown to beat counting words"
    return Recommendation(
        name=name,
        use=f"`{name}`",
        because=because,
        how_sure=f"{_sure(len(alike), len(others), own.rows, comparisons)}{more}{words}",
        alike=alike,
    )


def winner(comparisons: Comparisons) -> str:
    """The head that is shown to be better than the reference, else the reference."""
    better = [d for d in _heads(comparisons.to_reference) if d.differs and d.difference > 0]
    return max(better, key=lambda d: d.difference).name if better else comparisons.reference


def _told_apart(name: str, comparisons: Comparisons) -> set[str]:
    """Who is told apart from a head that `winner` gave."""
    if name == comparisons.reference:
        return {d.name for d in comparisons.to_reference if d.differs}
    # The best is the head itself, or not shown to be better: who is apart from it is no rival.
    return {comparisons.reference, *(d.name for d in comparisons.to_best if d.differs)} - {name}


def _beats(
    baseline: str, name: str, measures: Mapping[str, Measures], comparisons: Comparisons
) -> bool:
    """Whether a head that `winner` gave is shown to be better than a baseline, if there is one."""
    if baseline not in measures:
        return True
    # That heads as they were trained beat a baseline needs no second training. Who is better than
    # the reference is better than what the reference beats.
    known = comparisons.to_reference
    if name == comparisons.best:
        known = (*known, *comparisons.to_best)
    if any(d.name == baseline and d.high < 0 for d in known):
        return True
    return name != comparisons.best and measures[name].low > measures[baseline].high


def _because(measures: Mapping[str, Measures], name: str) -> str:
    own = measures[name]
    metric = SCORES[own.metric]
    low, high = own.low, own.high
    if own.metric == "accuracy":
        first = f"{100 * own.score:.0f} % right ({100 * low:.0f} to {100 * high:.0f})"
    else:
        first = f"{metric.title} {metric.told(own.score)} ({metric.between(low, high)})"
    told = {MAJORITY: "guessing", TFIDF: "counting words"}
    shown = "{:.0%}".format if own.metric == "accuracy" else metric.told
    beside = [
        f"{says} {shown(measures[one].score).replace('%', ' %').replace('  ', ' ')}"
        for one, says in told.items()
        if one in measures
    ]
    return f"{first}; {', '.join(beside)}" if beside else first


def _guessing(own: Measures) -> str:
    if _is_number(own):
        return "always answering the mean"
    return "always giving the commonest answer"


def _tested(rows: int) -> str:
    return "1 tested row" if rows == 1 else f"{rows:,} tested rows"


def _sure(alike: int, others: int, rows: int, comparisons: Comparisons) -> str:
    """Which of the others cannot be told apart from the head, in a sentence."""
    on = _tested(rows)
    if comparisons.once and others:
        return f"each head was trained once, which shows nothing of luck; {on}"
    if not others:
        return f"it is the only head, on {on}"
    if not alike:
        return f"better than {'the other head' if others == 1 else f'all {others} others'} on {on}"
    who = (
        "the other head"
        if others == 1
        else f"the {others} others"
        if alike == others
        else (f"{alike} of the {others} others")
    )
    return f"{who} cannot be told apart from it on {on}"
