"""Which way to serve a checkpoint explains the scores of a server, and how well.

Scores are compared in units of a tolerance that the scores themselves set: a thousandth of how much
they vary over the probes. What half precision may change is not guessed: the checkpoint is computed
in bfloat16 here as well, and what that changes is the measure.
Legend: n probes, c classes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from heads.extras.serving.variants import (
    Deviation,
    Inputs,
    Read,
    Variant,
    Variants,
)
from heads.problem import ProblemType

CLOSE = 1e-3  # of the spread of the scores over the probes: as float32 agrees
ROUNDING = 2e-6  # of the largest score: what sums in another order change
HALF = 2.0  # times what bfloat16 changes here
EXACT = 0.01  # of what bfloat16 changes: closer is no half precision (float16 is an eighth)
BETTER = 3.0  # times as close, to be taken instead of the checkpoint's own way
ALIKE = 0.1  # of the tolerance: below it two ways cannot be told apart
MOST_PERMUTED = 50  # classes, up to which all ways are tried with their labels permuted
TRIED_HALVED = 24  # of the closest ways
DECIMALS = range(1, 7)
FEWEST_VALUES = 4  # by fewer it cannot be told that they are rounded
FEWEST = 3  # texts
UNKNOWN = 5.0  # tolerances that bfloat16 may change, where it cannot be computed here

LOGITS, SOFTMAX, SIGMOID = "logits", "softmax", "sigmoid"
TWICE, LOGARITHM = "softmax twice", "logarithm"
SCALED_BY = " of logits × "  # between an output and the factor of its logits
Output = Callable[[Tensor], Tensor]


def outputs(problem: ProblemType, classes: int) -> dict[str, Output]:
    """What may be made of logits (n, c), by name; the checkpoint's own is one of them."""
    found: dict[str, Output] = {LOGITS: lambda logits: logits, SIGMOID: torch.sigmoid}
    found[SOFTMAX] = lambda logits: logits.softmax(dim=1)
    if classes > 1:
        found[TWICE] = lambda logits: logits.softmax(dim=1).softmax(dim=1)
        found[LOGARITHM] = lambda logits: logits.log_softmax(dim=1)
    return found | {own_output(problem): problem.probabilities}


def own_output(problem: ProblemType) -> str:
    """What the checkpoint's own library makes of logits."""
    own = problem.output_activation
    return LOGITS if own == "none" else own


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """What the server said of all probes, asked in one way.

    Attributes:
        is_raw: Whether it was asked for logits.
        scores: (n, c), in the order of the checkpoint's classes; NaN where none was told.
        accepted: What may be made of logits so that it is right, by name; the expected one first.
    """

    is_raw: bool
    scores: Tensor
    accepted: tuple[str, ...]

    @cached_property
    def told(self) -> Tensor:
        """(n, c), where there is a score."""
        return ~self.scores.isnan()

    @cached_property
    def tolerance(self) -> float:
        """By how much scores may differ that were computed in float32 in another place."""
        own = self.scores[self.told]
        middle = self.scores.nanmean(dim=0) if self.told.all() else own.mean()
        spread = float((self.scores - middle)[self.told].square().mean().sqrt())
        largest = float(own.abs().max())
        if len(self.scores) < FEWEST:  # by so few texts the spread cannot be told
            spread = max(spread, float(own.std(correction=0)), 0.1 * largest)
        return CLOSE * spread + ROUNDING * largest + _rounding(own) + 1e-7

    def misfit(self, expected: Tensor) -> float:
        """How far scores are from those that are expected (n, c), in tolerances."""
        differences = self._differences(expected)
        if not differences.numel():
            return torch.inf
        return float(differences.square().mean().sqrt()) / self.tolerance

    def largest(self, expected: Tensor) -> float:
        """The largest difference to what is expected (n, c)."""
        return float(self._differences(expected).abs().max())

    def _differences(self, expected: Tensor) -> Tensor:
        """Where both have a score."""
        differences = self.scores - expected
        return differences[~differences.isnan()]


def _rounding(scores: Tensor) -> float:
    """Half a unit of the last decimal that a server gives, where it gives few; else 0."""
    exact = scores.double()
    if len(exact.unique()) < FEWEST_VALUES:
        return 0.0
    error = 1e-7 * max(1.0, float(exact.abs().max()))  # of a decimal number in float32
    for places in DECIMALS:
        if torch.allclose(exact, exact.round(decimals=places), rtol=0, atol=error):
            return 0.5 * 10.0**-places
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """One way to serve the checkpoint, held to what the server said.

    Attributes:
        variant: The way up to the logits.
        inputs: What it gives the base model.
        labels: For each of the server's labels the number of the class whose score it bears.
        outputs: What is made of the logits, for each series.
        misfit: How far the server's scores are from its own, in tolerances.
        deviations: All that is not the checkpoint's own.
    """

    variant: Variant
    inputs: Sequence[Inputs]
    labels: tuple[int, ...]
    outputs: tuple[str, ...]
    misfit: float
    deviations: tuple[Deviation, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """What explains the scores of a server.

    Attributes:
        own: The checkpoint's own way, held to them.
        best: What explains them; None where nothing does.
        others: What explains them as well, so that the probes cannot tell.
        is_half: Whether they agree as half precision does.
    """

    own: Fit
    best: Fit | None
    others: tuple[Fit, ...] = ()
    is_half: bool = False


class Fitting:
    """Holds ways to serve a checkpoint to the scores of a server.

    Args:
        series: What the server said.
        problem: How the checkpoint's logits become answers.
        told: What to say of an output that is not the right one: of a series, by name.
        permuted: What to say of labels that bear the scores of other classes.
    """

    def __init__(
        self,
        series: Sequence[Series],
        problem: ProblemType,
        told: Callable[[Series, str], Deviation],
        permuted: Callable[[tuple[int, ...]], Deviation | None],
    ) -> None:
        self.series = series
        self._outputs = outputs(problem, series[0].scores.shape[1])
        self._told = told
        self._permuted = permuted

    @property
    def classes(self) -> int:
        """How many there are."""
        return self.series[0].scores.shape[1]

    def expected(self, fit: Fit, logits: Tensor) -> list[Tensor]:
        """The scores (n, c) of each series, given the logits of a way (n, c)."""
        labels = list(fit.labels)
        return [self._outputs[name](logits)[:, labels] for name in fit.outputs]

    def misfit(self, expected: Sequence[Tensor], scores: Sequence[Tensor] | None = None) -> float:
        """How far all series, or other scores, are from what is expected, in tolerances."""
        return max(float(one.square().mean().sqrt()) for one in self._apart(expected, scores))

    def rows(self, expected: Sequence[Tensor], scores: Sequence[Tensor] | None = None) -> Tensor:
        """The same of every text, (n,)."""
        apart = self._apart(expected, scores, by_text=True)
        return torch.stack([one.square().nanmean(dim=1).sqrt() for one in apart]).amax(dim=0)

    def _apart(
        self,
        expected: Sequence[Tensor],
        scores: Sequence[Tensor] | None,
        *,
        by_text: bool = False,
    ) -> list[Tensor]:
        """The differences in tolerances, of each series: those that are told, or all (n, c)."""
        given = scores or [one.scores for one in self.series]
        triples = zip(self.series, expected, given, strict=True)
        found = [(other - own) / one.tolerance for one, own, other in triples]
        told = [one.told for one in self.series]
        if by_text:
            return [f.masked_fill(~t, torch.nan) for f, t in zip(found, told, strict=True)]
        return [f[t] for f, t in zip(found, told, strict=True)]

    def own(self, logits: Tensor, inputs: Sequence[Inputs]) -> Fit:
        """The checkpoint's own way, whose outputs are right."""
        labels = tuple(range(self.classes))
        names = [
            min(one.accepted, key=lambda name, s=one: s.misfit(self._outputs[name](logits)))
            for one in self.series
        ]
        return self._fit(Variant(), inputs, logits, labels, names)

    def fits(self, variant: Variant, logits: Tensor, inputs: Sequence[Inputs]) -> Iterator[Fit]:
        """One way with the outputs that suit best: labels as they are named, and permuted."""
        plain = tuple(range(self.classes))
        yield self._fit(variant, inputs, logits, plain, self._best_outputs(logits, plain))
        if self.classes > 1 and (len(variant.deviations) < 2 or self.classes <= MOST_PERMUTED):
            labels = self._best_labels(logits)
            if labels != plain:
                names = self._best_outputs(logits, labels)
                yield self._fit(variant, inputs, logits, labels, names)

    def tempered(self, logits: Tensor, inputs: Sequence[Inputs]) -> Fit:
        """Return the checkpoint's own way with its logits multiplied by the factor that fits best.

        Series whose scores fit better without a factor, such as logits, go without it.
        """
        names = []
        for series in self.series:
            name = series.accepted[0]
            output = self._outputs[name]

            def misfit(power: float, series: Series = series, output: Output = output) -> float:
                return series.misfit(output(logits * 10**power))

            power = 0.0
            for digit in range(
                1, 8
            ):  # from a hundredth to a hundred, a decimal of its power a time
                steps = range(-20, 21) if digit == 1 else range(-10, 11)
                power = min((power + step / 10**digit for step in steps), key=misfit)
            if BETTER * misfit(power) < misfit(0.0):
                factor = 10.0**power
                name = f"{name}{SCALED_BY}{factor:.3g}"
                self._outputs[name] = lambda given, f=factor, o=output: o(given * f)
            names.append(name)
        return self._fit(Variant(), inputs, logits, tuple(range(self.classes)), names)

    def _fit(
        self,
        variant: Variant,
        inputs: Sequence[Inputs],
        logits: Tensor,
        labels: tuple[int, ...],
        names: Sequence[str],
    ) -> Fit:
        own = zip(self.series, names, strict=True)
        wrong = [self._told(one, name) for one, name in own if name not in one.accepted]
        moved = self._permuted(labels)
        deviations = (*variant.deviations, *([moved] if moved else ()), *wrong)
        both = [self._outputs[name](logits)[:, list(labels)] for name in names]
        return Fit(
            variant=variant,
            inputs=inputs,
            labels=labels,
            outputs=tuple(names),
            misfit=self.misfit(both),
            deviations=deviations,
        )

    def _best_outputs(self, logits: Tensor, labels: tuple[int, ...]) -> list[str]:
        """For each series what is made of the logits: the right one unless another is closer."""
        found = []
        for one in self.series:
            misfits = {
                name: one.misfit(output(logits)[:, list(labels)])
                for name, output in self._outputs.items()
            }
            least = min(misfits.values())
            near = (n for n in one.accepted if misfits[n] <= max(ALIKE, BETTER * least))
            found.append(next(near, min(misfits, key=lambda name: misfits[name])))
        return found

    def _best_labels(self, logits: Tensor) -> tuple[int, ...]:
        """The classes whose scores the server's labels bear, by the series that says most."""
        from scipy.optimize import linear_sum_assignment

        one = self.series[-1]  # of logits, where there are some
        scores, told = one.scores.nan_to_num().double(), one.told.double()
        found: list[tuple[float, tuple[int, ...]]] = []
        for output in self._outputs.values():
            expected = output(logits).double()
            # Σ (s − t)² over the probes with a score: (labels of the server, classes).
            costs = (scores.square() * told).sum(dim=0)[:, None]
            costs = costs + told.T @ expected.square() - 2 * (scores * told).T @ expected
            costs = costs - torch.eye(len(costs)) * one.tolerance**2  # as named, of two alike
            _, labels = linear_sum_assignment(costs.numpy())
            moved = tuple(int(label) for label in labels)
            found.append((one.misfit(expected[:, list(moved)]), moved))
        return min(found)[1]


def judge(
    fitting: Fitting,
    variants: Variants,
    inputs: Sequence[Inputs],
    others: Iterable[tuple[Deviation, Sequence[Inputs]]],
) -> Verdict:
    """Finds what explains the scores of a server.

    Args:
        inputs: The probes as the checkpoint's tokenizer gives them.
        others: The same given otherwise.
    """
    read = variants.read(inputs)
    own = fitting.own(_logits(variants, Variant(), read), inputs)
    if own.misfit <= 1:
        return Verdict(own=own, best=own)
    found = list(_every(fitting, variants, inputs, read, others))
    found.append(fitting.tempered(_logits(variants, Variant(), read), inputs))
    found = [one for one in found if one.deviations and one.misfit * BETTER <= own.misfit]
    if exact := [one for one in found if one.misfit <= 1]:
        return _of(own, exact, is_half=False)
    found.sort(key=lambda one: one.misfit)
    halved = [one for one in found[:TRIED_HALVED] if _fits_halved(one, fitting, variants)]
    if halved:
        return _of(own, halved, is_half=True)
    if _fits_halved(own, fitting, variants):
        return Verdict(own=own, best=own, is_half=True)
    return Verdict(own=own, best=None)


def _of(own: Fit, found: Sequence[Fit], *, is_half: bool) -> Verdict:
    """The way with the fewest deviations among those that are about as close as the closest."""
    least = min(one.misfit for one in found)
    near = [one for one in found if one.misfit <= max(ALIKE, BETTER * least)]
    fewest = min(len(one.deviations) for one in near)
    few = sorted((one for one in near if len(one.deviations) == fewest), key=lambda one: one.misfit)
    return Verdict(own=own, best=few[0], others=tuple(few[1:]), is_half=is_half)


def _every(
    fitting: Fitting,
    variants: Variants,
    inputs: Sequence[Inputs],
    read: Sequence[Read],
    others: Iterable[tuple[Deviation, Sequence[Inputs]]],
) -> Iterator[Fit]:
    """All ways to serve the checkpoint, each held to what the server said."""
    for variant, logits in variants.candidates(read):
        yield from fitting.fits(variant, logits, inputs)
    for deviation, given in others:
        for variant, logits in variants.candidates(variants.read(given), (deviation,)):
            yield from fitting.fits(variant, logits, given)


def _logits(variants: Variants, variant: Variant, read: Sequence[Read]) -> Tensor:
    logits = variants.logits(variant, read)
    assert logits is not None  # its shapes have been tried
    return logits


def halved_misfit(fit: Fit, fitting: Fitting, variants: Variants) -> float:
    """By how much bfloat16 changes the scores of a way here, in tolerances."""
    changed = _halved(fit, fitting, variants)
    return UNKNOWN if changed is None else fitting.misfit(changed[0], changed[1])


def _halved(
    fit: Fit, fitting: Fitting, variants: Variants
) -> tuple[list[Tensor], list[Tensor]] | None:
    """The scores of a way in float32 and in bfloat16; None where that cannot be computed here."""
    halved = variants.halved.tried(fit.variant, fit.inputs) if variants.halved else None
    if halved is None:
        return None
    exact = _logits(variants, fit.variant, variants.read(fit.inputs))
    return fitting.expected(fit, exact), fitting.expected(fit, halved)


def _fits_halved(fit: Fit, fitting: Fitting, variants: Variants) -> bool:
    """Tell whether half precision explains a misfit on every text where it would show."""
    changed = _halved(fit, fitting, variants)
    if changed is None:
        return fit.misfit <= HALF * UNKNOWN
    if fit.misfit > HALF * fitting.misfit(*changed):
        return False
    noise, apart = fitting.rows(*changed), fitting.rows(changed[0])
    telling = noise > 1
    return not telling.any() or float((apart / noise)[telling].median()) > EXACT
