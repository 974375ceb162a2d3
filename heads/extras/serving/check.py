"""Compare a served classifier with its checkpoint, and find out why they differ.

Legend: n probes, c classes.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from heads import interruption
from heads.classifier.classifier import Classifier
from heads.extras.serving import fitting as fits
from heads.extras.serving.encoding import Row, RowEncoder
from heads.extras.serving.fitting import LOGITS, SIGMOID, SOFTMAX, Fit, Fitting, Series, Verdict
from heads.extras.serving.http import RefusedError
from heads.extras.serving.labels import LabelCountError, Labels, match_labels
from heads.extras.serving.long_texts import LongTexts
from heads.extras.serving.report import CheckFinding, EndpointReport, fault, note
from heads.extras.serving.servers import CHECK_LABELS, RowScores, Server, Vllm
from heads.extras.serving.variants import Variants

REPEATED = 4  # texts that are sent twice: with dropout on no two answers are the same
UNSTEADY = 0.02  # of the mean deviation of scores: far above what half precision changes
SHORT, FEWEST = (0.75, 0.5, 0.25), 3  # of the probes, by their tokens; and at least so many
MOST_NAMED = 3
OUTPUTS = {
    LOGITS: "logits, to which nothing was applied",
    SOFTMAX: "a softmax of the logits",
    SIGMOID: "a sigmoid of each logit",
    fits.TWICE: "a softmax of a softmax",
    fits.LOGARITHM: "logarithms of probabilities",
}


class Check:
    """One checkpoint, a classifier loaded here, compared with one server."""

    def __init__(
        self, classifier: Classifier, rows: Sequence[Row], server: Server, model: str
    ) -> None:
        self.classifier, self.rows, self.server, self.model = classifier, rows, server, model
        self.output = fits.own_output(classifier.head.problem)
        self.encoder = RowEncoder(classifier.backbone, classifier.head.module.is_siamese)
        self.variants = Variants(self.encoder, classifier.head.module)
        kind = "pairs of texts" if len(rows[0]) > 1 else "texts"
        self.asked = [f"{len(rows)} {kind}, each by itself, as users ask who name no parameter."]
        self.findings: list[CheckFinding] = []

    def run(self, *, long: bool) -> EndpointReport:
        """Ask the server, also about `long` texts, and find out what its answers mean."""
        usual = [self.server.ask_one(row) for row in self.rows]
        repeated = [self.server.ask_one(row) for row in self.rows[:REPEATED]]
        answers = self._ask_raw(usual) if self.server.raw_by else {False: usual}
        batched = self._ask_batched() if self.server.most > 1 and len(self.rows) > 1 else []
        try:
            every = [scores for side in answers.values() for scores in side]
            labels = match_labels(every, self.classifier.classes)
        except LabelCountError as error:
            self.findings.append(fault("labels", error.what, error.hint))
            return self._report()
        is_squashed = self.output == LOGITS and self.server.squashes_numbers
        accepted = {True: (LOGITS,), False: (LOGITS, SIGMOID) if is_squashed else (self.output,)}
        series = [
            Series(is_raw=raw, scores=labels.matrix(side), accepted=accepted[raw])
            for raw, side in answers.items()
        ]
        if self._check_repeats(series[0], labels.matrix(repeated)):
            return self._report()
        self._check_labels(labels)
        verdict = self._fit(series, labels, range(len(self.rows)))
        self._explain(verdict, labels, batched, long)
        return self._report(verdict)

    # Requests.

    def _ask_raw(self, usual: list[RowScores]) -> dict[bool, list[RowScores]]:
        """Ask for logits, and return the answers to use by whether logits were asked for."""
        is_number = self.output == LOGITS
        why = f"Asked for logits ({self.server.raw_by}), it gives the same scores as without that."
        answers = {False: usual}
        try:
            raw = [self.server.ask_one(row, raw=True) for row in self.rows]
            if isinstance(self.server, Vllm) and not is_number and _are_same(usual, raw):
                self.server.switch = "activation"
                raw = [self.server.ask_one(row, raw=True) for row in self.rows]
            if not _are_same(usual, raw) or (self.server.always_raw and not is_number):
                self.asked.append(f"The same for logits: {self.server.raw_by}.")
                return {False: usual, True: raw}
            answers = {False: raw}  # the same scores, of which it may have given more
        except RefusedError as error:
            why = f"Asked for logits ({self.server.raw_by}), it refused: {error.what}"
        if not is_number:
            self._note("asking", why)
        return answers

    def _ask_batched(self) -> list[RowScores]:
        """Ask about several rows at once, shuffled, so that a wrong sorting by length shows."""
        order = sorted(range(len(self.rows)), key=lambda n: len(self.rows[n][0]))
        n_blocks = -(-len(order) // self.server.most)
        scores: dict[int, RowScores] = {}
        try:
            for block in range(n_blocks):
                numbers = order[block::n_blocks]  # short ones beside long ones
                random.Random(block).shuffle(numbers)
                interruption.check()
                answers = self.server.ask([self.rows[number] for number in numbers])
                scores |= zip(numbers, answers, strict=True)
        except RefusedError as error:
            self._note("asking", f"Several texts at once were refused: {error.what}")
            return []
        self.asked.append("The same several at once, short ones beside long ones.")
        return [scores[number] for number in range(len(self.rows))]

    # Comparison.

    def _fit(self, series: Sequence[Series], labels: Labels, numbers: Sequence[int]) -> Verdict:
        """Find what explains the answers to the probes with these numbers."""
        rows = [self.rows[number] for number in numbers]
        series = [replace(one, scores=one.scores[list(numbers)]) for one in series]
        describe = (self._describe_output, partial(self._describe_labels, labels))
        fitting = Fitting(series, self.classifier.head.problem, self.variants, *describe)
        return fitting.judge(self.encoder.encode(rows), self.encoder.iter_faults(rows))

    def _fit_short(
        self, series: Sequence[Series], labels: Labels
    ) -> tuple[Verdict, list[int]] | None:
        """Return what explains the shorter probes, and the numbers of those left out."""
        inputs = self.encoder.encode(self.rows)
        order = sorted(range(len(inputs)), key=lambda n: max(map(len, inputs[n])))
        for size in (int(fraction * len(order)) for fraction in SHORT):
            if size >= FEWEST:
                verdict = self._fit(series, labels, order[:size])
                if verdict.best is not None:
                    return verdict, order[size:]
        return None

    def _explain(
        self, verdict: Verdict, labels: Labels, batched: list[RowScores], long: bool
    ) -> None:
        """Find what explains the scores, and what becomes of batches and of long texts."""
        series, left_out = verdict.fitting.series, list[int]()
        difference, agreement = _compare(verdict)
        same = "" if agreement is None else f", and {agreement:.0%} of the labels are the same"
        why = f"no known fault explains them: scores differ by up to {difference:.2g}{same}."
        says = f"The answers are not those of this checkpoint, and {why}"
        hint = "Perhaps it serves other weights, another revision, or weights in 8 bits or less."
        unexplained = fault("unexplained", says, hint)
        if verdict.best is None:  # perhaps long ones are cut, and short ones explain the rest
            verdict, left_out = self._fit_short(series, labels) or (verdict, left_out)
        if verdict.best is None:
            self.findings.append(unexplained)
        else:
            self._describe_fit(verdict, verdict.best)
        if batched:
            self._check_batch(series[0], labels.matrix(batched), verdict)
        texts = LongTexts(self.server, self.rows, labels, verdict)
        if left_out:
            cut = list(texts.iter_probes(left_out, [one.scores for one in series]))
            self.findings += cut or [unexplained]
        elif long:
            self.findings += texts.iter_findings()
        self.asked += texts.asked

    def _report(self, verdict: Verdict | None = None) -> EndpointReport:
        difference, agreement = _compare(verdict) if verdict else (None, None)
        return EndpointReport(
            url=self.server.http.shown,
            server=self.server.title,
            served=self.server.model,
            model=self.model,
            recipe=str(self.classifier.recipe),
            probes=len(self.rows),
            asked=tuple(self.asked),
            findings=tuple(sorted(self.findings, key=lambda finding: finding.weight)),
            difference=difference,
            agreement=agreement,
        )

    # Findings.

    def _note(self, kind: str, says: str, hint: str = "") -> None:
        self.findings.append(note(kind, says, hint))

    def _describe_output(self, series: Series, name: str) -> CheckFinding:
        """Return the fault of scores that are made of the logits otherwise than they should be."""
        output, _, factor = name.partition(fits.SCALED_BY)
        if factor:
            times = f"multiplied by {factor} (a temperature of {1 / float(factor):.3g})"
            hint = "Answers stay, probabilities do not: turn the server's temperature off."
            return fault("temperature", f"The scores ({output}) are of the logits {times}.", hint)
        title = OUTPUTS.get(name, name)
        if series.is_raw:
            says = f"Asked for logits ({self.server.raw_by}), it gives {title}."
            hint = "Apply no softmax or sigmoid to them again, and no threshold made for logits."
            return fault("output", says, hint)
        right = {SOFTMAX: "a softmax over the classes", LOGITS: "the number itself"}
        own = right.get(self.output) or OUTPUTS.get(self.output, self.output)
        hint = "Check problem_type in the served config.json, and what the server applies"
        hint += f"; or ask for logits ({self.server.raw_by})." if self.server.raw_by else "."
        return fault("output", f"The scores are {title}, and the checkpoint's are {own}.", hint)

    def _describe_labels(self, labels: Labels, moved: tuple[int, ...]) -> CheckFinding | None:
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

    def _check_labels(self, labels: Labels) -> None:
        if labels.foreign:
            names = ", ".join(labels.foreign[:MOST_NAMED])
            known = ", ".join(self.classifier.classes[:MOST_NAMED])
            says = f"The server's labels are {names:.120}, and the checkpoint's {known:.120}."
            self.findings.append(fault("labels", says, CHECK_LABELS))
        if labels.is_numbered:
            says = "The server has lost the labels' names: its numbers were taken in their order."
            self._note("labels", says, "Write id2label into the config.json that it serves.")
        if not labels.is_named:
            self._note("labels", "The scores have no names: they were taken in their order.")

    def _describe_fit(self, verdict: Verdict, best: Fit) -> None:
        """Note the faults of the best fit, how exact the scores are, and which there were."""
        self.findings += best.faults
        for other in verdict.others[:MOST_NAMED]:
            also = " ".join(finding.says for finding in other.faults)
            says = f"These texts do not distinguish that from: {also}"
            self._note("asking", says, "Give more texts.")
        first, last = verdict.fitting.series[0], verdict.fitting.series[-1]
        if verdict.is_half:
            largest = last.largest(verdict.fitting.expected(best)[-1])
            self._note("precision", f"The scores agree to {largest:.2g}, as half precision does.")
        if last.scores.isnan().any():
            self._note("asking", "It names some labels only: the scores of those were compared.")
        if best.outputs[0] != self.output and best.outputs[0] in first.accepted:
            says = f"{self.server.title} gives a sigmoid of the number that this head answers."
            self._note("output", says, f"The number itself comes with {self.server.raw_by}.")

    def _check_batch(self, series: Series, batched: Tensor, verdict: Verdict) -> None:
        """Note that the scores of texts asked about at once, (n, c), are others."""
        misfit, fit = series.misfit(batched), verdict.best or verdict.own
        if misfit <= 1 or misfit <= fits.HALF * verdict.fitting.halved_misfit(fit):
            return
        scores, others = series.scores.nan_to_num(), batched.nan_to_num()
        nearest = torch.cdist(others, scores).argmin(dim=1)
        distances = (others - scores[nearest]).square().mean(dim=1).sqrt() / series.tolerance
        if float(distances.median()) <= 1 and len(nearest.unique()) > len(nearest) / 2:
            says = "The answers of a batch come back in another order than its texts."
            hint = "Undo the server's sorting by length before it answers."
            self.findings.append(fault("order", says, hint))
            return
        largest = series.largest(batched)
        says = f"An answer depends on what a text is batched with: scores differ by {largest:.2g}."
        hint = "Give its model the attention mask, its tokenizer the padding side and token."
        is_own = self.encoder.backbone.reads_padding
        own = note("padding", f"{says} This family does so itself.")
        self.findings.append(own if is_own else fault("padding", says, hint))

    def _check_repeats(self, series: Series, repeated: Tensor) -> bool:
        """Return True, and note it, if the same text gets other scores, (r, c), a second time."""
        first = replace(series, scores=series.scores[: len(repeated)])
        largest = first.largest(repeated)
        spread = float((series.scores - series.scores.nanmean(dim=0)).abs().nanmean())
        is_unsteady = largest > UNSTEADY * spread
        if is_unsteady:
            says = f"The same text gets other scores when sent again: up to {largest:.2g} apart."
            self.findings.append(fault("random", says, "Dropout is on: call model.eval()."))
        return is_unsteady


def _are_same(answers: Sequence[RowScores], others: Sequence[RowScores]) -> bool:
    """Return True if two lists of answers agree wherever the first one has a score."""
    pairs = [(_by_key(one), _by_key(other)) for one, other in zip(answers, others, strict=True)]
    return all(
        abs(values.get(key, torch.inf) - value) <= 1e-6 * max(1.0, abs(value))
        for answer, values in pairs
        for key, value in answer.items()
    )


def _by_key(scores: RowScores) -> dict[object, float]:
    keys = range(len(scores.values)) if "" in scores.names else scores.names
    return dict(zip(keys, scores.values, strict=True))


def _compare(verdict: Verdict) -> tuple[float, float | None]:
    """Return the largest difference of two scores, and the fraction of labels that are the same."""
    fitting, own = verdict.fitting, verdict.own
    difference = fitting.series[0].largest(fitting.expected(own)[0])
    if fitting.n_classes < 2:
        return difference, None
    named = fitting.series[-1].scores.nan_to_num(-torch.inf).argmax(dim=1)
    return difference, float((named == own.logits.argmax(dim=1)).float().mean())
