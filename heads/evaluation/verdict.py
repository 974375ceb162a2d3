"""Which head to use, why, and how sure that is: what the measurements of a run allow one to say."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from heads.evaluation.details import Measures
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.predictions import BASELINES, MAJORITY, OWN, TFIDF
from heads.evaluation.significance import Comparisons, Difference

FEWEST_ROWS = 50  # tested: fewer are too few to choose on
SAME_SIZE = 1.1  # heads of so many times the parameters count as equal: a bias is no reason
WIDE = 0.02  # a difference of up to two points is small,
FIFTH = 5  # as is one of up to a fifth of the errors,
SEEN = 0.002  # and one of less than 0.2 points is not worth the rows that it would take to detect
POWER_80 = ((3 + 0.84) / 3) ** 2  # rows to detect a difference in 4 of 5 runs, at a bar near 3
FAR = 100  # times as many rows as there are: more is no number to plan with
FEW_GROUPS = 20  # of rows: fewer say little, however many rows they have


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Which head to use, in words for a reader in a hurry; names are in backticks.

    Attributes:
        name: The head; "" where none can be recommended.
        lead: What to know before any head: how the checkpoint's own head compares, and that a
            baseline does as well. Often empty.
        use: The head in backticks, or why there is none; "" where no head is trained yet.
        because: Why this head, and its score beside those of the baselines.
        how_sure: How many other heads are not significantly different, and what would settle that.
        alike: The other heads that are not significantly different from it.
    """

    name: str = ""
    lead: str = ""
    use: str = ""
    because: str = ""
    how_sure: str = ""
    alike: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The recommendation as prose, the most important sentence first."""
        use = f"Use {self.use}" if self.name else self.use
        said = f"{use}: {self.because}." if self.because else f"{use}."
        sure = f"How sure: {self.how_sure}." if self.how_sure else ""
        return tuple(filter(None, (self.lead, said, sure)))


def recommend(
    measures: Mapping[str, Measures],
    comparisons: Comparisons,
    sizes: Mapping[str, float],
    *,
    commonest: str = "",
    stopped: int = 0,
    left: int = 0,
    improving: int = 0,
) -> Recommendation:
    """Recommend the smallest of the heads that are not significantly worse than the best.

    Of heads of about one size it is the one with the highest score. Where the best head is
    significantly better than a baseline, so is the recommended one. A head that fine-tunes its
    base model needs a base model of its own; it is recommended only where every frozen head that
    could be recommended, or scores higher than that one, is significantly worse than a fine-tuned
    head. No head is recommended that is not significantly better than the majority class, and none
    on fewer than 50 tested rows.

    Args:
        sizes: How many numbers each head learns; infinite if it stores its training rows instead.
        commonest: The class that the majority baseline answers, where a row has one class.
        improving: How many were still improving when their training ended.
    """
    asides = tuple(_asides(stopped, left, improving))
    name = _choose(measures, comparisons, sizes)
    own = measures[name or comparisons.best]
    sure = list(asides)
    if own.rows < FEWEST_ROWS:
        why = f"{_rows(own)} {'is' if own.rows == 1 else 'are'} too few to choose a head"
        sure = [f"test on {FEWEST_ROWS} rows or more", *asides]
    elif MAJORITY not in measures:
        why = "the baselines are still to be trained"
    elif not name:
        what = _majority(measures[MAJORITY], commonest)
        why = f"no head is significantly better than {what}"
        sure = [_unbeaten(comparisons, own), *asides]
    else:
        return _describe(measures, comparisons, sizes, name, asides)
    scores, _ = _scores(measures, comparisons.best, comparisons.best)
    # The checkpoint's own head, which is never recommended, may score higher.
    among = "of the heads trained here, " * (OWN in measures)
    return Recommendation(
        lead=_compare_own_head(comparisons, comparisons.best),
        use=f"No recommendation: {why}",
        because=f"{among}`{comparisons.best}` scores highest: {scores}",
        how_sure="; ".join(sure),
    )


# --- The choice.


def _choose(
    measures: Mapping[str, Measures], comparisons: Comparisons, sizes: Mapping[str, float]
) -> str:
    """Return the head to recommend; "" where none is significantly better than the majority."""
    frozen = comparisons.frozen
    if frozen is None:
        return _smallest_of_best(measures, comparisons, sizes)
    usual = _smallest_of_best(measures, frozen, sizes)
    ranked = _ranked(measures, _cells(frozen))
    tuned = _ranked(measures, _cells(comparisons) - _cells(frozen))
    tuned = [head for head in tuned if _is_better(comparisons, head, MAJORITY)]
    ahead = [head for head in ranked if usual and measures[head].score > measures[usual].score]
    rivals = [h for h in (usual, *ahead) if h and _is_better(frozen, h, MAJORITY)]
    # A single training shows nothing of luck, so then no fine-tuned head is shown to be better.
    beaten = {
        rival
        for rival in rivals
        for head in tuned
        if not comparisons.once and _is_better(comparisons, head, rival)
    }
    winners = [
        head
        for head in tuned
        if not comparisons.once and all(_is_better(comparisons, head, rival) for rival in rivals)
    ]
    unbeaten = [rival for rival in rivals if rival not in beaten]
    return next(iter([*unbeaten, *winners, *tuned]), "")


def _smallest_of_best(
    measures: Mapping[str, Measures], comparisons: Comparisons, sizes: Mapping[str, float]
) -> str:
    """Return the smallest head that is not significantly worse than the best; "" for none.

    Of heads of about one size it is the one with the highest score, of equal scores the reference.
    """
    best = comparisons.best
    # The reference was chosen before any score was known, so comparisons with it are more precise
    # than those with the best: a head that is worse than either is out.
    compared = (*comparisons.to(best), *comparisons.to_reference)
    worse = {d.name for d in compared if d.high < 0}
    beaten = [name for name in (MAJORITY, TFIDF) if _is_better(comparisons, best, name)]
    heads = [
        head
        for head in _ranked(measures, _cells(comparisons) - worse, comparisons.reference)
        if all(_is_better(comparisons, head, name) for name in {MAJORITY, *beaten})
    ]
    if not heads:
        # The best leads the majority class, but not surely; another head, whose answers vary less
        # from row to row, may lead it by less and surely.
        heads = [h for h in _ranked(measures, _cells(comparisons))
                 if _is_better(comparisons, h, MAJORITY)][:1]  # fmt: skip
    smallest = min((sizes[head] for head in heads), default=0)
    return next((head for head in heads if sizes[head] <= SAME_SIZE * smallest), "")


def _cells(comparisons: Comparisons) -> set[str]:
    return set(comparisons.pairs.names)


def _ranked(measures: Mapping[str, Measures], cells: set[str], reference: str = "") -> list[str]:
    """Return the heads among some cells, the highest score first, and a reference before equals."""
    return sorted(
        cells - set(BASELINES),
        key=lambda name: (-round(measures[name].score, 9), name != reference, name),
    )


def _is_better(comparisons: Comparisons, name: str, other: str) -> bool:
    """Return whether one cell scores significantly higher than another.

    Intervals of heads that were trained once are of these trained heads only, which is enough
    against a baseline.
    """
    difference = comparisons.between(name, other)
    return difference is not None and difference.low > 0


# --- The words.


def _describe(
    measures: Mapping[str, Measures],
    comparisons: Comparisons,
    sizes: Mapping[str, float],
    name: str,
    asides: Sequence[str],
) -> Recommendation:
    """Return the recommendation of a head; a frozen one is compared with the frozen heads."""
    frozen, tuned = comparisons.frozen, list[str]()
    among = comparisons
    if frozen is not None:
        tuned = _ranked(measures, _cells(comparisons) - _cells(frozen))
        among = comparisons if name in tuned else frozen
    others = [d for d in among.to(name) if d.name not in BASELINES]
    alike = tuple(d.name for d in others if not d.differs)
    scores, score_of_best = _scores(measures, name, among.best)
    because = [_reason(measures, among, sizes, name, alike, score_of_best), scores]
    sure = [*_compared_with(measures, among, name, others, alike), *asides]
    words = _compare_bag_of_words(measures, comparisons, name)
    if TFIDF in measures and not words and not _is_better(comparisons, name, TFIDF):
        sure.insert(1, "a bag of words is not significantly worse")
    if among is not comparisons:
        near = tuple(
            head for head in tuned
            if comparisons.once or not any(
                _is_better(comparisons, *pair) for pair in ((head, name), (name, head))
            )
        )  # fmt: skip
        alike, (first, *_) = (*alike, *near), (*near, *tuned)
        than = "not significantly different" if near else "worse"
        because.append(f"the fine-tuned `{first}` is {than}")
        sure[0] = f"of the frozen heads, {sure[0]}"
    elif name in tuned:
        because.append("it fine-tunes the base model, and so needs a copy of it")
    return Recommendation(
        name=name,
        lead=" ".join(filter(None, (_compare_own_head(comparisons, name), words))),
        use=f"`{name}`",
        because="; ".join(filter(None, because)),
        how_sure="; ".join(sure),
        alike=alike,
    )


def _compare_own_head(comparisons: Comparisons, name: str) -> str:
    """Say how the head that the checkpoint came with compares with a head trained here."""
    difference = comparisons.between(OWN, name)
    if difference is None:
        return ""
    how = "better than" if difference.difference > 0 else "worse than"
    how = f"significantly {how}" if difference.differs else "not significantly different from"
    return f"The checkpoint's own head is {how} `{name}`."


def _compare_bag_of_words(
    measures: Mapping[str, Measures], comparisons: Comparisons, name: str
) -> str:
    """Say first that a bag of words scores as high as the recommended head, where it does."""
    if TFIDF not in measures or _is_better(comparisons, name, TFIDF):
        return ""
    words, own = measures[TFIDF], measures[name]
    metric = SCORES[own.metric]
    if own.score - words.score > small_difference(own.score, metric):
        return ""
    better = "better" if _is_better(comparisons, TFIDF, name) else "as well"
    return f"A bag of words does {better} here ({metric.told(words.score)})."


def _reason(
    measures: Mapping[str, Measures],
    comparisons: Comparisons,
    sizes: Mapping[str, float],
    name: str,
    alike: Sequence[str],
    score_of_best: str,
) -> str:
    best = f"`{comparisons.best}` ({score_of_best})"
    if len(_cells(comparisons) - set(BASELINES)) < 2:
        return ""
    if measures[name].score >= measures[comparisons.best].score:
        much_smaller = [head for head in alike if SAME_SIZE * sizes[head] < sizes[name]]
        if not much_smaller:
            return "highest score" + " and no much smaller head is as good" * bool(alike)
        beats_words = {head: _is_better(comparisons, head, TFIDF) for head in (name, *much_smaller)}
        if beats_words.pop(name) and not any(beats_words.values()):
            return "highest score; no smaller head is significantly better than a bag of words"
        return "highest score"
    if comparisons.best not in alike:
        return f"the highest score is that of {best}"
    if SAME_SIZE * sizes[name] < sizes[comparisons.best]:
        return f"smaller than the best head, {best}, and not significantly worse"
    return f"not significantly worse than the best head, {best}"


def _scores(measures: Mapping[str, Measures], head: str, best: str) -> tuple[str, str]:
    """Return the score of a head beside those of the baselines, and that of the best head."""
    own, name = measures[head], SCORES[measures[head].metric]
    baselines = {MAJORITY: "mean of the labels" if _is_number(own) else "majority class"}
    baselines |= {TFIDF: "bag of words", OWN: "the checkpoint's own head"}
    known = {words: measures[one].score for one, words in baselines.items() if one in measures}
    ends = sorted((own.low, own.high), key=abs if name.scale == "error" else None)
    every = (own.score, *ends, measures[best].score, *known.values())
    score, low, high, of_best, *others = brief(name, *every)
    unit, noun = " %" * name.is_share, name.noun.removeprefix("negative ")
    beside = [f"{words} {one}{unit}" for words, one in zip(known, others, strict=True)]
    first = f"{noun} {score}{unit} (95 % interval {low}–{high}{unit})"
    return "; ".join(filter(None, [first, ", ".join(beside)])), f"{of_best}{unit}"


def _compared_with(
    measures: Mapping[str, Measures],
    comparisons: Comparisons,
    name: str,
    others: Sequence[Difference],
    alike: Sequence[str],
) -> Iterator[str]:
    """Say how many other heads are not significantly different, and what would settle that."""
    own, score = measures[name], SCORES[measures[name].metric]
    every = "the other head" if len(others) == 1 else f"the {len(others)} other heads"
    if not others:
        yield "no other head was trained"
    elif not alike:
        yield f"{every} {'is' if len(others) == 1 else 'are'} significantly worse"
    else:
        who = every if len(alike) == len(others) else f"{len(alike)} of {every}"
        are = "is" if len(alike) == 1 else "are"
        yield f"{who} {are} not significantly different on {_rows(own)}"
    if comparisons.once:
        yield "trained once, so how much results vary is not known: train with 3 seeds"
    elif unclear := [d for d in others if d.name in alike]:
        yield _settling(unclear, comparisons.pairs.groups, own)
    expected = comparisons.chosen
    is_highest = own.score >= measures[comparisons.best].score
    if is_highest and expected and own.score - expected > small_difference(own.score, score) / 4:
        (lower,), (stated,) = brief(score, expected), brief(score, own.score)
        if lower != stated:
            yield f"expect about {lower}{' %' * score.is_share}, as it was chosen on these rows"


def brief(name: Metric, score: float, *others: float) -> list[str]:
    """Scores without their unit, as short as distinguishes the first from every other.

    None reads as all or nothing that is not; errors are said without their sign.

    >>> brief(SCORES["accuracy"], 0.6932, 0.591, 0.772), brief(SCORES["accuracy"], 0.9996)
    (['69', '59', '77'], ['99.96'])
    >>> brief(SCORES["spearman"], 0.8123, 0.8104, -0.0001)
    ['0.812', '0.810', '0.000']
    >>> brief(SCORES["neg_mean_squared_error"], -1234.5, -2100.25)
    ['1,234', '2,100']
    """
    told = list[str]()
    for digits in range(4):
        told = [_short(name, value, digits) for value in (score, *others)]
        is_distinct = all(
            own != told[0] or value == score for own, value in zip(told[1:], others, strict=True)
        )
        is_exact = not name.is_share or all(
            float(own) not in (0, 100) or value in (0, 1)
            for own, value in zip(told, (score, *others), strict=True)
        )
        if is_distinct and is_exact:
            break
    return told


def _short(name: Metric, value: float, digits: int) -> str:
    if name.is_share:
        return f"{100 * value:.{digits}f}"
    if name.scale == "error":
        value = abs(value)
        return f"{value:,.{max(0, digits + 1 - floor(log10(value)))}f}" if value else "0"
    told = f"{value:.{digits + 2}f}"
    return (told if float(told) else told.lstrip("-")).replace("-", "−")


def _rows(own: Measures) -> str:
    return f"{own.rows:,} held-out row{'s' * (own.rows != 1)}"


def _majority(own: Measures, commonest: str) -> str:
    if _is_number(own):
        return "the mean of the labels"
    if "micro_f1" in own.values:
        return "always giving the most frequent labels"
    return f"always answering '{commonest}'" if commonest else "the majority class"


def _is_number(own: Measures) -> bool:
    return "spearman" in own.values


def small_difference(score: float, metric: Metric) -> float:
    """Return the difference up to which another head is as good in practice.

    It is a fifth of the errors that are left, but at most two points, and at least 0.2 points. Of
    an error in units of the labels it is a tenth.

    >>> [round(small_difference(s, SCORES["accuracy"]), 4) for s in (0.6, 0.95, 0.985, 0.999)]
    [0.02, 0.01, 0.003, 0.002]
    """
    left = metric.high - score
    if metric.scale == "error":
        return left / 10
    return min(WIDE, max(SEEN, left / FIFTH))


def _settling(unclear: Sequence[Difference], groups: int, own: Measures) -> str:
    """Say by how much heads that are not significantly different may be better, or what decides."""
    score = SCORES[own.metric]
    if 0 < groups < FEW_GROUPS and own.rows >= 2 * groups:
        return f"the rows are in {groups} groups: more groups are needed, not more rows"
    bound, matters = max(0.0, *(d.high for d in unclear)), small_difference(own.score, score)
    # As every table rounds it, but never 0.
    limit = score.gap(bound if score.scale == "error" else max(bound, 0.001))
    if bound <= matters:
        return f"none is better by more than {limit} (95 %)"
    if needed := _rows_to_detect(max(unclear, key=lambda d: d.difference), own, matters):
        if score.is_share:
            told = f"{100 * matters:.2g} point{'s' * (f'{100 * matters:.2g}' != '1')}"
        else:
            told = f"{matters:.2g}"
        return f"it would take {needed} to detect a difference of {told}"
    return f"one may be better by up to {limit} (95 %)"


def _rows_to_detect(seen: Difference, own: Measures, gap: float) -> str:
    """Say how many rows detect a gap at 80 % power; "" where there are enough already."""
    needed = own.rows * (seen.high - seen.low) ** 2 / 4 / gap**2 * POWER_80
    if needed <= own.rows:
        return ""
    scale = 10 ** (len(str(int(needed))) - 2)  # two figures: it is a rough estimate
    rows = ceil(needed / scale) * scale
    return f"about {rows:,} rows" if rows <= FAR * own.rows else f"more than {FAR} times the rows"


def _unbeaten(comparisons: Comparisons, own: Measures) -> str:
    """Say how far the best head is from being significantly better than the majority class."""
    found = next(d for d in comparisons.to_best if d.name == MAJORITY)
    if found.difference >= 0:
        return f"no head scores higher on {_rows(own)}"
    gap = SCORES[own.metric].gap(-found.difference)
    first = f"the lead of {gap} on {_rows(own)} may be chance"
    needed = _rows_to_detect(found, own, -found.difference)
    return f"{first}; it would take {needed} to detect it" if needed else first


def _asides(stopped: int, left: int, improving: int) -> Iterator[str]:
    """Say which heads are in no comparison, or not trained to their end."""
    if stopped:
        yield f"{stopped} more {'was' if stopped == 1 else 'were'} eliminated in the race"
    if left:
        yield f"{left} more {'is' if left == 1 else 'are'} still to be trained"
    if improving:
        heads = "1 head was" if improving == 1 else f"{improving} heads were"
        yield f"{heads} still improving when training ended: more epochs may change this"
