"""The verdict: what the measures and comparisons of a run allow one to say, in plain English."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from heads.evaluation.details import Measures
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.predictions import BASELINES, MAJORITY, TFIDF
from heads.evaluation.significance import Comparisons, Difference

WIDE = 0.02  # an interval that leaves more than two points open settles little,
FIFTH = 5  # as does one that leaves open more than a fifth of what is wrong yet
POWER_80 = ((3 + 0.84) / 3) ** 2  # rows to find a difference in 4 of 5 runs, at a bar near 3
FAR = 100  # times as many rows as there are: more is no number to plan with
FEW_GROUPS = 20  # of rows: fewer say little, however many rows they have
FEWEST = 3  # heads, of which the best is chosen
SEEN = 0.002  # less than 0.2 points is not worth the rows that it would take


def judge(
    measures: Mapping[str, Measures], comparisons: Comparisons, *, commonest: str = ""
) -> tuple[str, ...]:
    """The verdict in a few sentences, the first of which stands alone.

    It says that a head is better only where the comparison tells the two apart; that none is,
    is a common answer. Where some heads learn their base model as well, what is said of the others
    is what would be said without them.

    Args:
        measures: Of every cell, by its name.
        comparisons: Of the same cells.
        commonest: The class that the majority baseline answers, where a row has one.
    """
    among = comparisons.frozen or comparisons
    first, wide = _first(measures, among)
    own = measures[among.reference]
    sentences = [
        *_beside_frozen(measures, comparisons, first),
        *_baselines(measures, comparisons, commonest),
    ]
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


def _beside_frozen(
    measures: Mapping[str, Measures], comparisons: Comparisons, first: str
) -> list[str]:
    """The verdict on heads on the frozen base model, and what it is worth to learn that as well.

    Who is better stands first.
    """
    frozen = comparisons.frozen
    if frozen is None:
        return [first]
    usual, best = frozen.best, comparisons.best
    tuned = best if best != usual else _tuned(measures, comparisons)[0]
    name, first = SCORES[measures[usual].metric], f"On the frozen base model: {first}"
    found = next(d for d in comparisons.to_best if d.name == (usual if best == tuned else tuned))
    by = f"by {name.gap(abs(found.difference))}"
    if found.differs and best == tuned:
        between = f"{name.between(-found.high, -found.low)}, 95 %"
        ahead = f"is better than `{usual}`, the best head on the frozen one, {by} ({between})"
        return [f"`{tuned}` learns the base model as well and {ahead}.", first]
    if found.differs:
        between = f"{name.between(-found.high, -found.low)}, 95 %"
        told = f"`{tuned}`, the best head that learns the base model as well"
        return [first, f"{told}, is worse than `{usual}` {by} ({between})."]
    if best == tuned:
        told = f"scores highest, but is not shown to beat `{usual}`"
        return [first, f"`{tuned}`, which learns the base model as well, {told}."]
    told = f"`{tuned}`, the best head that learns the base model as well"
    return [first, f"{told}, is not told apart from `{usual}`."]


def _tuned(measures: Mapping[str, Measures], comparisons: Comparisons) -> list[str]:
    """The heads that learn their base model as well beside others, the highest score first."""
    if comparisons.frozen is None:
        return []
    return _ranked(measures, _cells(comparisons) - _cells(comparisons.frozen))


def _cells(comparisons: Comparisons) -> set[str]:
    return {comparisons.reference, *(d.name for d in comparisons.to_reference)}


def _ranked(measures: Mapping[str, Measures], cells: set[str]) -> list[str]:
    """The heads among some cells, the highest score first."""
    return sorted(cells - set(BASELINES), key=lambda one: (-measures[one].score, one))


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
    tested = "1 tested row" if rows == 1 else f"{rows:,} tested rows"
    bound = f"may be better by up to {_bound(highest.high, name)} (95 %)"
    first = f"{told}. But on {tested} `{highest.name}` {bound}."
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
    if comparisons.frozen is not None:
        compared += comparisons.frozen.to_best
    # That heads as they were trained beat a baseline needs no second training.
    beaten = {d.name for d in compared if d.high < 0}
    unbeaten = [
        to_best[name] for name in (MAJORITY, TFIDF) if name in to_best and name not in beaten
    ]
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
    """How many tested rows would settle a difference of the size seen, at 80 % power."""
    least = SEEN * abs(own.score) if SCORES[own.metric].scale == "error" else SEEN
    if seen.difference < least:
        return []
    by, about = SCORES[own.metric].gap(seen.difference), _needed(seen, own, seen.difference)
    if not about:
        return []
    lead = f"The lead seen, `{seen.name}` by {by}"
    rows = _so_many(about, own).replace("rows", "tested rows")
    return [f"{lead}, would take {rows} to settle."]


def _so_many(rows: int, own: Measures) -> str:
    """About how many rows; a number only where somebody might have so many."""
    return f"about {rows:,} rows" if rows <= FAR * own.rows else f"more than {FAR} times the rows"


def _needed(seen: Difference, own: Measures, gap: float) -> int:
    """About how many tested rows would tell apart two heads that are so far apart; 0: no more."""
    needed = own.rows * (seen.high - seen.low) ** 2 / 4 / gap**2 * POWER_80
    if needed <= own.rows:
        return 0
    scale = 10 ** (len(str(int(needed))) - 2)  # two figures: it is a rough estimate
    return ceil(needed / scale) * scale


def _heads(differences: tuple[Difference, ...]) -> list[Difference]:
    return [d for d in differences if d.name not in BASELINES]


# --- The one head that is recommended: the same in verdict, charts, report and what is exported.

FEWEST_ROWS = 50  # tested: fewer are too few to choose on


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Which head to take, said to somebody in a hurry; names stand between backticks.

    Attributes:
        name: The head; "" where none can be recommended.
        use: The same to be read, or why there is none; "" where nothing is done yet.
        because: What it scores, beside guessing and counting words.
        how_sure: Whether other heads may be as good, and what would settle that.
        alike: The other heads that cannot be told apart from it.
    """

    name: str = ""
    use: str = ""
    because: str = ""
    how_sure: str = ""
    alike: tuple[str, ...] = ()


def recommend(
    measures: Mapping[str, Measures],
    comparisons: Comparisons,
    *,
    commonest: str = "",
    stopped: int = 0,
    left: int = 0,
    improving: int = 0,
) -> Recommendation:
    """The head that is shown to be better than the reference, else the reference.

    One that learns its base model as well costs a base model of its own, so it is recommended only
    where it is shown to be better than the head that would be recommended without it and than
    every head on the frozen base model that scores higher than that one.

    A head that is not shown to beat guessing, which is always giving the commonest answer, is
    never recommended; nor is any on fewer than 50 tested rows.

    Args:
        measures: Of every cell, by its name.
        comparisons: Of the same cells.
        commonest: The class that the majority baseline answers, where a row has one.
        stopped: How many heads a race has stopped.
        left: How many heads are still to be trained.
        improving: How many were still improving when their training was ended.
    """
    name, aside = _choice(measures, comparisons), tuple(_aside(stopped, left, improving))
    none = _none(measures, comparisons, name, commonest, aside)
    return none or _one(measures, comparisons, name, aside)


def _none(
    measures: Mapping[str, Measures],
    comparisons: Comparisons,
    name: str,
    commonest: str,
    aside: Sequence[str],
) -> Recommendation | None:
    """Why no head can be recommended; None where one can."""
    own, sure = measures[name or comparisons.best], list(aside)
    if own.rows < FEWEST_ROWS:
        why = f"{_rows(own)} {'is' if own.rows == 1 else 'are'} too few to choose"
        sure = [f"not at all; test on {FEWEST_ROWS} rows or more"]
    elif MAJORITY not in measures:
        why = "heads have not been compared with guessing yet"
    elif not name:
        why = f"no head is shown to beat guessing ({_always(measures[MAJORITY], commonest)})"
        sure = [_unbeaten(comparisons, own), *aside]
    else:
        return None
    best = comparisons.best  # which need not be the head that would be recommended
    because = f"`{best}` scores highest: {_scored(measures, best)}"
    return Recommendation(use=f"None: {why}", because=because, how_sure="; ".join(sure))


def _one(
    measures: Mapping[str, Measures], comparisons: Comparisons, name: str, aside: Sequence[str]
) -> Recommendation:
    """The recommendation of a head: a frozen one is set against the others of its kind."""
    because, tuned, among = _scored(measures, name), _tuned(measures, comparisons), comparisons
    if comparisons.frozen is not None and name not in tuned:
        among = comparisons.frozen
    if name == among.reference != among.best:
        because += "; no other is shown to be better than this simple head"
    alike = tuple(_alike(among, name))
    where = "on the frozen base model " * (among is not comparisons)
    sure = [
        *_lead(measures, among, name),
        *_others(measures, among, name, alike, where),
        *_words(comparisons, name),
        *aside,
    ]
    if among is not comparisons:
        near = tuple(one for one in tuned if not _differ(comparisons, name, one))
        alike, (one, *_) = (*alike, *near), (*near, *tuned)
        worse = "is not told apart from it" if near else "is worse"
        because += f"; `{one}`, which learns the base model as well, {worse}"
    elif name in tuned:
        because += "; it learns the base model as well, and needs one of its own"
    return Recommendation(
        name=name, use=f"`{name}`", because=because, how_sure="; ".join(sure), alike=alike
    )


def _choice(measures: Mapping[str, Measures], comparisons: Comparisons) -> str:
    """The head to recommend; "" where none is shown to beat guessing."""
    frozen = comparisons.frozen
    if frozen is None:
        return _wanted(comparisons)
    usual, known = _wanted(frozen), _ranked(measures, _cells(frozen))
    tuned = [t for t in _tuned(measures, comparisons) if _is_above(comparisons, t, MAJORITY)]
    ahead = known[: known.index(usual)] if usual else []
    rivals = [one for one in (usual, *ahead) if one and _is_above(frozen, one, MAJORITY)]
    unbeaten = [one for one in rivals if not any(_is_better(comparisons, t, one) for t in tuned)]
    sure = [t for t in tuned if all(_is_better(comparisons, t, one) for one in rivals)]
    return next(iter([*unbeaten, *sure, *tuned]), "")


def _wanted(comparisons: Comparisons) -> str:
    """The same where all heads cost alike."""
    better = [d for d in _heads(comparisons.to_reference) if d.differs and d.difference > 0]
    winner = [max(better, key=lambda d: d.difference).name] if better else []
    # Where the reference is not shown to beat guessing, the head that scores highest may be.
    asked = (*winner, comparisons.reference, comparisons.best)
    return next((one for one in asked if _is_above(comparisons, one, MAJORITY)), "")


def _is_better(comparisons: Comparisons, one: str, other: str) -> bool:
    """Whether one head is shown to be better than another, with the luck of training in it."""
    return not comparisons.once and _is_above(comparisons, one, other)


def _differ(comparisons: Comparisons, one: str, other: str) -> bool:
    return any(_is_better(comparisons, *pair) for pair in ((one, other), (other, one)))


def brief(name: Metric, score: float, *others: float) -> list[str]:
    """Scores without their unit, as short as tells the first from every other.

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
        is_told_apart = all(
            own != told[0] or value == score for own, value in zip(told[1:], others, strict=True)
        )
        is_exact = not name.is_share or all(
            float(own) not in (0, 100) or value in (0, 1)
            for own, value in zip(told, (score, *others), strict=True)
        )
        if is_told_apart and is_exact:
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


def _scored(measures: Mapping[str, Measures], head: str) -> str:
    """What a head scores and what the baselines do: "69 % right (59 to 77); guessing 54 %"."""
    own, name = measures[head], SCORES[measures[head].metric]
    told = {MAJORITY: "guessing", TFIDF: "counting words"}
    if _is_number(own):
        told[MAJORITY] = "guessing the mean"
    known = {words: measures[one].score for one, words in told.items() if one in measures}
    ends = sorted((own.low, own.high), key=abs if name.scale == "error" else None)
    score, low, high, *others = brief(name, own.score, *ends, *known.values())
    unit = " %" * name.is_share
    said = {"accuracy": "{} right", "exact_match": "all labels of {} of the rows right"}
    noun = name.noun.removeprefix("negative ")
    first = said.get(own.metric, f"{noun} {{}}").format(f"{score}{unit}")
    beside = [f"{words} {one}{unit}" for words, one in zip(known, others, strict=True)]
    return "; ".join(filter(None, [f"{first} ({low} to {high})", ", ".join(beside)]))


def _rows(own: Measures) -> str:
    return f"{own.rows:,} tested row{'s' * (own.rows != 1)}"


def _is_above(comparisons: Comparisons, one: str, other: str) -> bool:
    """Whether one cell is shown to score higher than another.

    All intervals of a family hold at once: so does what follows from two of them. Those of heads
    that were trained once are of these heads only, which is enough against a baseline.
    """
    families = [
        (comparisons.reference, comparisons.to_reference),
        (comparisons.best, comparisons.to_best),
    ]
    if (frozen := comparisons.frozen) is not None:
        families += [(frozen.reference, frozen.to_reference), (frozen.best, frozen.to_best)]
    for home, family in families:
        ends = {home: (0.0, 0.0)} | {d.name: (d.low, d.high) for d in family}
        if one in ends and other in ends and ends[one][0] > ends[other][1]:
            return True
    return False


def _alike(comparisons: Comparisons, name: str) -> Iterator[str]:
    """The other heads that cannot be told apart from one."""
    reference, family = comparisons.reference, _family(comparisons, name)
    differ = {d.name for d in family if d.differs}
    if any(d.name == name and d.differs for d in comparisons.to_reference):
        differ.add(reference)
    for other in (reference, *(d.name for d in _heads(comparisons.to_reference))):
        if not family and any(
            _is_above(comparisons, *pair) for pair in ((name, other), (other, name))
        ):
            continue  # it was compared with the reference only, and so was the other
        if other not in (name, *differ):
            yield other


def _family(comparisons: Comparisons, name: str) -> tuple[Difference, ...]:
    """Every other cell less this one; nothing where that has not been compared."""
    if name == comparisons.reference:
        return comparisons.to_reference
    return comparisons.to_best if name == comparisons.best else ()


def _lead(measures: Mapping[str, Measures], comparisons: Comparisons, name: str) -> Iterator[str]:
    """By how much it is better than the reference, and what choosing it may flatter it by."""
    own, score = measures[name], SCORES[measures[name].metric]
    found = next((d for d in comparisons.to_reference if d.name == name), None)
    if found is None:
        return
    if found.differs:
        between = f"{score.between(found.low, found.high)}, 95 %"
        yield f"better than `{found.other}` by {score.gap(found.difference)} ({between})"
    else:
        yield f"the simpler `{found.other}` is not shown to beat guessing"
    frozen = comparisons.frozen
    if frozen is not None and name == comparisons.best and frozen.best != found.other:
        apart = next(d for d in comparisons.to_best if d.name == frozen.best)
        between = f"{score.between(-apart.high, -apart.low)}, 95 %"
        by = f"by {score.gap(-apart.difference)} ({between})"
        if apart.differs:
            yield f"better than `{frozen.best}`, the best on the frozen base model, {by}"
    chosen = comparisons.chosen if name == comparisons.best else None
    if chosen is not None and own.score - chosen > enough(own.score, score) / 4:
        (told,) = brief(score, chosen)
        yield f"about {told}{' %' * score.is_share} on rows that did not choose it"


def _others(
    measures: Mapping[str, Measures],
    comparisons: Comparisons,
    name: str,
    alike: tuple[str, ...],
    where: str = "",
) -> Iterator[str]:
    """Whether the other heads can be told apart from it, and what would settle that.

    Args:
        where: Which others these are, where they are not all.
    """
    own = measures[name]
    others = len(_heads(comparisons.to_reference))
    if not others:
        yield f"{where}no other head was trained"
    elif not alike:
        if others > 1 or name == comparisons.reference:
            told = "the other head is worse" if others == 1 else f"the {others} others are worse"
            yield where + told
    else:
        who = f"{len(alike)} of the {others} others"
        if len(alike) == others:
            who = "the other head" if others == 1 else f"the {others} others"
        yield f"{where}{who} cannot be told apart from it on {_rows(own)}"
    if comparisons.once:
        yield "trained once: luck is not known, 3 seeds would show it"
    elif open_ := [d for d in _family(comparisons, name) if d.name in alike]:
        yield _settling(open_, comparisons.groups, own)


def _settling(open_: Sequence[Difference], groups: int, own: Measures) -> str:
    """How much better the heads may be that cannot be told apart, or what would tell them."""
    score = SCORES[own.metric]
    if 0 < groups < FEW_GROUPS and own.rows >= 2 * groups:
        return f"these stand in {groups} groups: more groups would settle it, not rows"
    bound, matters = max(0.0, *(d.high for d in open_)), enough(own.score, score)
    rival = max(open_, key=lambda d: d.difference)
    if bound <= matters:
        return f"none is better by more than {_bound(bound, score)} (95 %)"
    if about := _needed(rival, own, matters):
        rows = _so_many(about, own)
        return f"{rows} would settle a difference of {_gap(matters, score)}"
    return f"one may be better by up to {_bound(bound, score)} (95 %)"


def _gap(gap: float, name: Metric) -> str:
    """A difference worth telling, with the digits that it takes."""
    if not name.is_share:
        return f"{gap:.2g}"
    return f"{100 * gap:.2g} point{'s' * (f'{100 * gap:.2g}' != '1')}"


def _words(comparisons: Comparisons, name: str) -> Iterator[str]:
    """That counting words may do, where that is so."""
    cells = {comparisons.reference, *(d.name for d in comparisons.to_reference)}
    if TFIDF not in cells or _is_above(comparisons, name, TFIDF):
        return
    is_better = _is_above(comparisons, TFIDF, name)
    yield "counting words does better" if is_better else "counting words may do as well"


def _unbeaten(comparisons: Comparisons, own: Measures) -> str:
    """How far the best head is from beating guessing."""
    found = next(d for d in comparisons.to_best if d.name == MAJORITY)
    score = SCORES[own.metric]
    if found.difference >= 0:
        return f"on {_rows(own)} no head is ahead of it"
    first = f"the lead of {score.gap(-found.difference)} on {_rows(own)} may be chance"
    about = _needed(found, own, -found.difference)
    return f"{first}; {_so_many(about, own)} would settle it" if about else first


def _aside(stopped: int, left: int, improving: int) -> Iterator[str]:
    """Which heads are in no comparison, or not trained to their end."""
    if stopped:
        yield f"{stopped} more {'was' if stopped == 1 else 'were'} stopped in the race"
    if left:
        yield f"{left} more {'is' if left == 1 else 'are'} still to be trained"
    if improving:
        heads = "1 head was" if improving == 1 else f"{improving} heads were"
        yield f"{heads} still improving when training ended, so more passes may change this"
