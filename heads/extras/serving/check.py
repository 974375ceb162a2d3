"""Compare a served classifier with its checkpoint, and find out why they differ.

The server is asked about a few texts: as users do, for logits where it gives them, several at once,
and with texts as long as the checkpoint reads and longer. The checkpoint is computed here as it is,
and with each fault that servers are known to have.
Legend: n probes, c classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from heads.classifier.classifier import Classifier
from heads.extras.serving.answers import ask_all
from heads.extras.serving.encoding import Row, RowEncoder
from heads.extras.serving.fitting import (
    HALF,
    LOGARITHM,
    LOGITS,
    SCALED_BY,
    SIGMOID,
    SOFTMAX,
    TWICE,
    Fit,
    Fitting,
    Series,
    Verdict,
    own_output,
)
from heads.extras.serving.labels import LabelCountError, Labels, match_labels
from heads.extras.serving.long_texts import LongTexts
from heads.extras.serving.report import EndpointReport, Finding, fault, note
from heads.extras.serving.servers import CHECK_LABELS, Scores, Server
from heads.extras.serving.variants import Variants

UNSTEADY = 0.02  # of the mean deviation of scores: far above what half precision changes
SHORT, FEWEST = (0.75, 0.5, 0.25), 3  # of the probes, by their tokens; and at least so many
MOST_NAMED = 3
OUTPUTS = {
    LOGITS: "logits, to which nothing was applied",
    SOFTMAX: "a softmax of the logits",
    SIGMOID: "a sigmoid of each logit",
    TWICE: "a softmax of a softmax",
    LOGARITHM: "logarithms of probabilities",
}


class Check:
    """One checkpoint compared with one server.

    Args:
        classifier: The checkpoint, loaded here.
        rows: The probes.
        server: The server.
        model: The name of the checkpoint.
    """

    def __init__(
        self, classifier: Classifier, rows: Sequence[Row], server: Server, model: str
    ) -> None:
        self.classifier = classifier
        self.rows = rows
        self.server = server
        self.model = model
        self.problem = classifier.head.problem
        self.output = own_output(self.problem)
        self.encoder = RowEncoder.of(classifier)
        self.variants = Variants(self.encoder, classifier.head.module)
        kind = "pairs of texts" if len(rows[0]) > 1 else "texts"
        self.asked = [f"{len(rows)} {kind}, each by itself, as users ask who name no parameter."]

    def run(self, *, long: bool) -> EndpointReport:
        """Ask the server, and find out what its answers mean.

        Args:
            long: Whether to send texts as long as the checkpoint reads, and longer.
        """
        answers = ask_all(self.server, self.rows, self.output)
        if answers.raw:
            self.asked.append(f"The same for logits: {self.server.raw_by}.")
        if answers.batched:
            self.asked.append("The same several at once, short ones beside long ones.")
        try:
            labels = match_labels([*answers.usual, *answers.raw], self.classifier.classes)
        except LabelCountError as error:
            return self._report([*answers.notes, fault("labels", error.what, error.hint)])
        series = [self._build_series(labels.matrix(answers.usual), is_raw=False)]
        if answers.raw:
            series.append(self._build_series(labels.matrix(answers.raw), is_raw=True))
        if random := _check_repeats(series[0], labels.matrix(answers.repeated)):
            return self._report([*answers.notes, random])
        fitting, verdict = self._fit(series, labels, range(len(self.rows)))
        findings = [*answers.notes, *self._iter_label_findings(labels)]
        findings += self._explain(fitting, verdict, labels, answers.batched, long=long)
        return self._report(findings, fitting, verdict.own)

    def _build_series(self, scores: Tensor, *, is_raw: bool) -> Series:
        accepted = (LOGITS,) if is_raw else (self.output,)
        if not is_raw and self.output == LOGITS and self.server.squashes_numbers:
            accepted = (LOGITS, SIGMOID)
        return Series(is_raw=is_raw, scores=scores, accepted=accepted)

    def _fit(
        self, series: Sequence[Series], labels: Labels, numbers: Sequence[int]
    ) -> tuple[Fitting, Verdict]:
        """Find what explains the answers to the probes with these numbers."""
        rows = [self.rows[number] for number in numbers]
        series = [replace(one, scores=one.scores[list(numbers)]) for one in series]
        describe_labels = partial(self._describe_labels, labels)
        fitting = Fitting(
            series, self.problem, self.variants, self._describe_output, describe_labels
        )
        return fitting, fitting.judge(self.encoder.encode(rows), self.encoder.iter_faults(rows))

    def _explain(
        self,
        fitting: Fitting,
        verdict: Verdict,
        labels: Labels,
        batched: Sequence[Scores],
        *,
        long: bool,
    ) -> Iterator[Finding]:
        """Yield what explains the scores, and what becomes of batches and of long texts."""
        series = fitting.series
        unexplained, left_out = _unexplained(fitting, verdict.own), list[int]()
        if verdict.best is None:  # perhaps long ones are cut, and short ones explain the rest
            whole = (fitting, verdict, left_out)
            fitting, verdict, left_out = next(self._iter_short_fits(series, labels), whole)
        if verdict.best is None:
            yield unexplained
        else:
            yield from self._iter_fit_findings(fitting, verdict, verdict.best)
        if batched:
            fit = verdict.best or verdict.own
            yield from self._check_batch(series[0], labels.matrix(batched), fitting, fit)
        texts = LongTexts(self.server, self.rows, labels, fitting, verdict)
        if left_out:
            cut = list(texts.iter_probes(left_out, [one.scores for one in series]))
            yield from cut or [unexplained]
        elif long:
            yield from texts.iter_findings()
        self.asked += texts.asked

    def _iter_short_fits(
        self, series: Sequence[Series], labels: Labels
    ) -> Iterator[tuple[Fitting, Verdict, list[int]]]:
        """Yield what explains the shorter probes, and the numbers of those left out."""
        inputs = self.encoder.encode(self.rows)
        order = sorted(range(len(inputs)), key=lambda n: max(map(len, inputs[n])))
        for size in (int(fraction * len(order)) for fraction in SHORT):
            if size >= FEWEST:
                fitting, verdict = self._fit(series, labels, order[:size])
                if verdict.best is not None:
                    yield fitting, verdict, order[size:]

    def _report(
        self, findings: Sequence[Finding], fitting: Fitting | None = None, own: Fit | None = None
    ) -> EndpointReport:
        difference, agreement = _compare(fitting, own) if fitting and own else (None, None)
        return EndpointReport(
            url=self.server.http.shown,
            server=self.server.title,
            served=self.server.model,
            model=self.model,
            recipe=str(self.classifier.recipe),
            probes=len(self.rows),
            asked=tuple(self.asked),
            findings=tuple(sorted(findings, key=lambda finding: finding.weight)),
            difference=difference,
            agreement=agreement,
        )

    def _describe_output(self, series: Series, name: str) -> Finding:
        """Return the fault of scores that are made of the logits otherwise than they should be."""
        output, _, factor = name.partition(SCALED_BY)
        if factor:
            temperature = 1 / float(factor)
            says = (
                f"The logits are multiplied by {factor} (a temperature of {temperature:.3g}) "
                f"before they become scores ({output})."
            )
            hint = "Answers stay, probabilities do not: turn the server's temperature off."
            return fault("temperature", says, hint)
        found = OUTPUTS.get(name, name)
        if series.is_raw:
            says = f"Asked for logits ({self.server.raw_by}), it gives {found}."
            hint = "Apply no softmax or sigmoid to them again, and no threshold made for logits."
            return fault("output", says, hint)
        right = {SOFTMAX: "a softmax over the classes", LOGITS: "the number itself"}
        own = right.get(self.output) or OUTPUTS.get(self.output, self.output)
        hint = "Check problem_type in the served config.json, and what the server applies"
        hint += f"; or ask for logits ({self.server.raw_by})." if self.server.raw_by else "."
        return fault("output", f"The scores are {found}, and the checkpoint's are {own}.", hint)

    def _describe_labels(self, labels: Labels, moved: tuple[int, ...]) -> Finding | None:
        """Return the fault of labels that have the scores of other classes, if any do."""
        classes = self.classifier.classes
        swaps = [
            f"what the checkpoint calls {classes[number]:.40} the server calls {name:.40}"
            for place, number in enumerate(moved)
            if number != place and (labels.places or labels.names[place])
            for name in (labels.names[place] or classes[place],)
        ]
        if not swaps:
            return None
        more = f" (and {len(swaps) - MOST_NAMED} more)" if len(swaps) > MOST_NAMED else ""
        what = "By their scores" if labels.foreign else "Labels are swapped"
        says = f"{what}: {'; '.join(swaps[:MOST_NAMED])}{more}."
        return fault("labels", says, f"{CHECK_LABELS[:-1]}, or the app's list of labels.")

    def _iter_label_findings(self, labels: Labels) -> Iterator[Finding]:
        if labels.foreign:
            names = ", ".join(labels.foreign[:MOST_NAMED])
            known = ", ".join(self.classifier.classes[:MOST_NAMED])
            says = f"The server's labels are {names:.120}, and the checkpoint's {known:.120}."
            yield fault("labels", says, CHECK_LABELS)
        if labels.is_numbered:
            says = "The server has lost the labels' names: its numbers were taken in their order."
            yield note("labels", says, "Write id2label into the config.json that it serves.")
        if not labels.is_named:
            yield note("labels", "The scores have no names: they were taken in their order.")

    def _iter_fit_findings(
        self, fitting: Fitting, verdict: Verdict, best: Fit
    ) -> Iterator[Finding]:
        """Yield the faults of the best fit, how exact the scores are, and which there were."""
        yield from best.faults
        for other in verdict.others[:MOST_NAMED]:
            also = " ".join(one.says for one in other.faults)
            says = f"These texts do not distinguish that from: {also}"
            yield note("asking", says, "Give more texts.")
        first, last = fitting.series[0], fitting.series[-1]
        if verdict.is_half:
            largest = last.largest(fitting.expected(best)[-1])
            yield note("precision", f"The scores agree to {largest:.2g}, as half precision does.")
        if last.scores.isnan().any():
            yield note("asking", "It names some labels only: the scores of those were compared.")
        if best.outputs[0] != self.output and best.outputs[0] in first.accepted:
            says = f"{self.server.title} gives a sigmoid of the number that this head answers."
            yield note("output", says, f"The number itself comes with {self.server.raw_by}.")

    def _check_batch(
        self, series: Series, batched: Tensor, fitting: Fitting, fit: Fit
    ) -> Iterator[Finding]:
        """Yield a finding if an answer depends on the texts beside it."""
        misfit = series.misfit(batched)
        if misfit <= 1 or misfit <= HALF * fitting.halved_misfit(fit):
            return
        scores, others = series.scores.nan_to_num(), batched.nan_to_num()
        nearest = torch.cdist(others, scores).argmin(dim=1)
        apart = (others - scores[nearest]).square().mean(dim=1).sqrt() / series.tolerance
        if float(apart.median()) <= 1 and len(nearest.unique()) > len(nearest) / 2:
            says = "The answers of a batch come back in another order than its texts."
            yield fault("order", says, "Undo the server's sorting by length before it answers.")
            return
        largest = series.largest(batched)
        says = f"An answer depends on what a text is batched with: scores differ by {largest:.2g}."
        if self.encoder.backbone.reads_padding:
            yield note("padding", f"{says} This family does so itself.")
        else:
            hint = "Give its model the attention mask, its tokenizer the padding side and token."
            yield fault("padding", says, hint)


def _check_repeats(series: Series, repeated: Tensor) -> Finding | None:
    """Return a fault if the same text gets other scores, (r, c), when it is sent again."""
    first = replace(series, scores=series.scores[: len(repeated)])
    largest = first.largest(repeated)
    spread = float((series.scores - series.scores.nanmean(dim=0)).abs().nanmean())
    if largest <= UNSTEADY * spread:
        return None
    says = f"The same text gets other scores when it is sent again: up to {largest:.2g} apart."
    return fault("random", says, "Dropout is on: call model.eval().")


def _compare(fitting: Fitting, own: Fit) -> tuple[float, float | None]:
    """Return the largest difference of two scores, and the fraction of labels that are the same."""
    difference = fitting.series[0].largest(fitting.expected(own)[0])
    if fitting.n_classes < 2:
        return difference, None
    named = fitting.series[-1].scores.nan_to_num(-torch.inf).argmax(dim=1)
    return difference, float((named == own.logits.argmax(dim=1)).float().mean())


def _unexplained(fitting: Fitting, own: Fit) -> Finding:
    difference, agreement = _compare(fitting, own)
    same = "" if agreement is None else f", and {agreement:.0%} of the labels are the same"
    says = (
        "The answers are not those of this checkpoint, and no known fault explains them: scores "
        f"differ by up to {difference:.2g}{same}."
    )
    hint = "Perhaps it serves other weights, another revision, or weights in 8 bits or less."
    return fault("unexplained", says, hint)
