"""Find which way to serve a checkpoint explains the scores of a server, and how well.

The tolerance is a thousandth of how much scores vary; half precision is measured in bfloat16.
Legend: n probes, c classes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan

import torch
from torch import Tensor

from heads.extras.serving.encoding import Inputs
from heads.extras.serving.report import CheckFinding
from heads.extras.serving.variants import Variant, Variants
from heads.problem import ProblemType

CLOSE = 1e-3  # of the spread of the scores over the probes: as float32 agrees
ROUNDING = 2e-6  # of the largest score: what sums in another order change
HALF = 2.0  # times what bfloat16 changes here
EXACT = 0.01  # of what bfloat16 changes: closer is no half precision (float16 is an eighth)
BETTER = 3.0  # times as close, to be preferred to the checkpoint's own way
ALIKE = 0.1  # of the tolerance: below it two ways cannot be distinguished
MOST_PERMUTED = 50  # classes, up to which all ways are tried with their labels permuted
TRIED_HALVED = 24  # of the closest ways
DECIMALS = range(1, 7)
FEWEST_VALUES = 4  # with fewer, rounding cannot be recognised
FEWEST = 3  # texts
UNKNOWN = 5.0  # tolerances that bfloat16 may change, where it cannot be computed here

LOGITS, SOFTMAX, SIGMOID = "logits", "softmax", "sigmoid"
TWICE, LOGARITHM = "softmax twice", "logarithm"
SCALED_BY = " of logits × "  # between an output and the factor of its logits
Output = Callable[[Tensor], Tensor]


def own_output(problem: ProblemType) -> str:
    """Return the name of what the checkpoint's own library makes of logits."""
    name = problem.output_activation
    return LOGITS if name == "none" else name


def build_outputs(problem: ProblemType, n_classes: int) -> dict[str, Output]:
    """Return what may be made of logits (n, c), by name; the checkpoint's own is one of them."""
    outputs: dict[str, Output] = {LOGITS: lambda logits: logits, SIGMOID: torch.sigmoid}
    outputs[SOFTMAX] = lambda logits: logits.softmax(dim=1)
    if n_classes > 1:
        outputs[TWICE] = lambda logits: logits.softmax(dim=1).softmax(dim=1)
        outputs[LOGARITHM] = lambda logits: logits.log_softmax(dim=1)
    return outputs | {own_output(problem): problem.probabilities}


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """The server's scores of all probes, asked for in one way."""

    is_raw: bool  # whether logits were asked for
    scores: Tensor  # (n, c), in the order of the checkpoint's classes; NaN where none was given
    accepted: tuple[str, ...]  # names of the outputs that are right; the expected one first

    @cached_property
    def tolerance(self) -> float:
        """By how much scores may differ that were computed in float32 in another place."""
        is_given = ~self.scores.isnan()
        values = self.scores[is_given]
        middle = self.scores.nanmean(dim=0) if is_given.all() else values.mean()
        spread = float((self.scores - middle)[is_given].square().mean().sqrt())
        largest = float(values.abs().max())
        if len(self.scores) < FEWEST:  # so few texts do not show the spread
            spread = max(spread, float(values.std(correction=0)), 0.1 * largest)
        return CLOSE * spread + ROUNDING * largest + _rounding(values) + 1e-7

    def distances(self, expected: Tensor, scores: Tensor | None = None) -> Tensor:
        """Return the differences to expected scores (n, c), in tolerances; NaN without a score."""
        return ((self.scores if scores is None else scores) - expected) / self.tolerance

    def misfit(self, expected: Tensor, scores: Tensor | None = None) -> float:
        """Return the root mean square distance, in tolerances."""
        misfit = float(self.distances(expected, scores).square().nanmean().sqrt())
        return torch.inf if isnan(misfit) else misfit

    def largest(self, expected: Tensor) -> float:
        """Return the largest difference to expected scores (n, c)."""
        return float((self.scores - expected).abs().nan_to_num(0.0).max())


def _rounding(scores: Tensor) -> float:
    """Return half a unit of the last decimal that a server gives, where it gives few; else 0."""
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
    """One way to serve the checkpoint, compared with the server's scores."""

    variant: Variant  # the way up to the logits
    logits: Tensor  # (n, c)
    # for each of the server's labels the number of the class whose score it has
    labels: tuple[int, ...]
    outputs: tuple[str, ...]  # what is made of the logits, for each series
    misfit: float  # how far the server's scores are from its own, in tolerances
    faults: tuple[CheckFinding, ...]  # where it is not the checkpoint's own way


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """The order of classes and the function that explain the scores of a server."""

    fitting: "Fitting"  # the comparison that it is of
    own: Fit  # the checkpoint's own way
    best: Fit | None  # the way that explains them; None where none does
    others: tuple[Fit, ...] = ()  # ways that explain them as well, so that the probes cannot tell
    is_half: bool = False  # whether they agree as half precision does


class Fitting:
    """Compare ways to serve a checkpoint with the scores of a server.

    Args:
        describe_output: Returns the fault of an output of a series that is not accepted.
        describe_labels: Returns the fault of labels that have the scores of other classes, or None.
    """

    def __init__(
        self,
        series: Sequence[Series],
        problem: ProblemType,
        variants: Variants,
        describe_output: Callable[[Series, str], CheckFinding],
        describe_labels: Callable[[tuple[int, ...]], CheckFinding | None],
    ) -> None:
        self.series, self.variants = series, variants
        self.n_classes = series[0].scores.shape[1]
        self._outputs = build_outputs(problem, self.n_classes)
        self._describe_output, self._describe_labels = describe_output, describe_labels

    def expected(self, fit: Fit, logits: Tensor | None = None) -> list[Tensor]:
        """Return the scores (n, c) of each series under a fit, of its own or of other logits."""
        logits, labels = fit.logits if logits is None else logits, list(fit.labels)
        return [self._outputs[name](logits)[:, labels] for name in fit.outputs]

    def misfit(self, expected: Sequence[Tensor], scores: Sequence[Tensor] | None = None) -> float:
        """Return how far the scores of all series, or others, are from expected ones."""
        given = scores or [None] * len(self.series)
        triples = zip(self.series, expected, given, strict=True)
        return max(series.misfit(own, other) for series, own, other in triples)

    def _halve(self, fit: Fit) -> list[Tensor] | None:
        """Return the scores of a fit in bfloat16 where the server gave some, or None."""
        halved = self.variants.halved
        logits = halved.try_logits(fit.variant) if halved else None
        if logits is None:
            return None
        pairs = zip(self.series, self.expected(fit, logits), strict=True)
        return [own.masked_fill(series.scores.isnan(), torch.nan) for series, own in pairs]

    def halved_misfit(self, fit: Fit) -> float:
        """Return by how much bfloat16 changes the scores of a fit, in tolerances."""
        halved = self._halve(fit)
        return UNKNOWN if halved is None else self.misfit(self.expected(fit), halved)

    def _fits_halved(self, fit: Fit) -> bool:
        """Return True if half precision explains the misfit of every text where it would show."""
        halved, expected = self._halve(fit), self.expected(fit)
        if halved is None:
            return fit.misfit <= HALF * UNKNOWN
        if fit.misfit > HALF * self.misfit(expected, halved):
            return False
        triples = list(zip(self.series, expected, halved, strict=True))
        noise = _row_misfits([series.distances(own, other) for series, own, other in triples])
        misfits = _row_misfits([series.distances(own) for series, own, _ in triples])
        shows = noise > 1
        return not shows.any() or float((misfits / noise)[shows].median()) > EXACT

    def judge(
        self,
        inputs: Sequence[Inputs],
        faulty_inputs: Iterable[tuple[CheckFinding, Sequence[Inputs]]],
    ) -> Verdict:
        """Find what explains the scores, from the probes encoded rightly and with each fault."""
        variant = Variant(inputs=inputs)
        logits = self.variants.logits(variant)
        scores = {name: output(logits) for name, output in self._outputs.items()}
        accepted = [min(s.accepted, key=lambda n: s.misfit(scores[n])) for s in self.series]
        own = self._fit(variant, logits, accepted)
        if own.misfit <= 1:
            return Verdict(fitting=self, own=own, best=own)
        fits = [*self._iter_fits(inputs)]
        for fault, others in faulty_inputs:
            fits += self._iter_fits(others, fault)
        fits.append(self._fit_temperature(variant, logits))
        fits = [fit for fit in fits if fit.faults and fit.misfit * BETTER <= own.misfit]
        if exact := [fit for fit in fits if fit.misfit <= 1]:
            return self._select(own, exact, is_half=False)
        fits.sort(key=lambda fit: fit.misfit)
        if halved := [fit for fit in fits[:TRIED_HALVED] if self._fits_halved(fit)]:
            return self._select(own, halved, is_half=True)
        is_half = self._fits_halved(own)
        return Verdict(fitting=self, own=own, best=own if is_half else None, is_half=is_half)

    def _select(self, own: Fit, fits: Sequence[Fit], *, is_half: bool) -> Verdict:
        """Select the fit with the fewest faults among those about as close as the closest."""
        most = max(ALIKE, BETTER * min(fit.misfit for fit in fits))
        near = [fit for fit in fits if fit.misfit <= most]
        near.sort(key=lambda fit: (len(fit.faults), fit.misfit))
        best, *others = (fit for fit in near if len(fit.faults) == len(near[0].faults))
        return Verdict(fitting=self, own=own, best=best, others=tuple(others), is_half=is_half)

    def _fit(
        self, variant: Variant, logits: Tensor, names: list[str], labels: tuple[int, ...] = ()
    ) -> Fit:
        labels = labels or tuple(range(self.n_classes))
        pairs = zip(self.series, names, strict=True)
        wrong = [self._describe_output(*pair) for pair in pairs if pair[1] not in pair[0].accepted]
        moved = self._describe_labels(labels)
        expected = [self._outputs[name](logits)[:, list(labels)] for name in names]
        return Fit(
            variant=variant,
            logits=logits,
            labels=labels,
            outputs=tuple(names),
            misfit=self.misfit(expected),
            faults=(*variant.faults, *([moved] if moved else ()), *wrong),
        )

    def _iter_fits(self, inputs: Sequence[Inputs], *faults: CheckFinding) -> Iterator[Fit]:
        """Yield each way with the outputs that fit best: labels as named, and permuted."""
        named = tuple(range(self.n_classes))
        for variant, logits in self.variants.iter_logits(inputs, faults):
            yield self._fit(variant, logits, self._select_outputs(logits, named))
            is_permuted = len(variant.faults) < 2 or self.n_classes <= MOST_PERMUTED
            if is_permuted and (labels := self._select_labels(logits)) != named:
                names = self._select_outputs(logits, labels)
                yield self._fit(variant, logits, names, labels)

    def _fit_temperature(self, variant: Variant, logits: Tensor) -> Fit:
        """Return the checkpoint's own way with its logits times the factor that fits best.

        Series whose scores fit better without a factor, such as logits, go without it.
        """
        names = []
        for series in self.series:
            name = series.accepted[0]
            output = self._outputs[name]

            def misfit(power: float, series: Series = series, output: Output = output) -> float:
                return series.misfit(output(logits * 10**power))

            power = 0.0
            for digit in range(1, 8):  # from 0.01 to 100, one decimal of its power at a time
                steps = range(-20, 21) if digit == 1 else range(-10, 11)
                power = min((power + step / 10**digit for step in steps), key=misfit)
            if BETTER * misfit(power) < misfit(0.0):
                factor = 10.0**power
                name = f"{name}{SCALED_BY}{factor:.3g}"
                self._outputs[name] = lambda given, f=factor, o=output: o(given * f)
            names.append(name)
        return self._fit(variant, logits, names)

    def _select_outputs(self, logits: Tensor, labels: tuple[int, ...]) -> list[str]:
        """Return an output for each series: an accepted one unless another is closer."""
        names = []
        for series in self.series:
            misfits = {
                name: series.misfit(output(logits)[:, list(labels)])
                for name, output in self._outputs.items()
            }
            best = min(misfits, key=lambda name: misfits[name])
            most = max(ALIKE, BETTER * misfits[best])
            names.append(next((n for n in series.accepted if misfits[n] <= most), best))
        return names

    def _select_labels(self, logits: Tensor) -> tuple[int, ...]:
        """Return the classes whose scores the server's labels have, by the most telling series."""
        from scipy.optimize import linear_sum_assignment

        series = self.series[-1]  # of logits, where there are some
        is_given = (~series.scores.isnan()).double()
        scores = series.scores.nan_to_num().double()
        matches: list[tuple[float, tuple[int, ...]]] = []
        for output in self._outputs.values():
            expected = output(logits).double()
            # Σ (s − t)² over the probes with a score: (labels of the server, classes).
            costs = (scores.square() * is_given).sum(dim=0)[:, None]
            costs = costs + is_given.T @ expected.square() - 2 * (scores * is_given).T @ expected
            costs = costs - torch.eye(len(costs)) * series.tolerance**2  # as named, of two alike
            _, columns = linear_sum_assignment(costs.numpy())
            labels = tuple(int(column) for column in columns)
            matches.append((series.misfit(expected[:, list(labels)]), labels))
        return min(matches)[1]


def _row_misfits(distances: Sequence[Tensor]) -> Tensor:
    """Return the misfit of every text, (n,), from the distances of each series (n, c)."""
    return torch.stack([one.square().nanmean(dim=1).sqrt() for one in distances]).amax(dim=0)
