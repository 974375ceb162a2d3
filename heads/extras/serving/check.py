"""Whether a served classifier answers as the head of its checkpoint does, and if not, why.

The server is asked about a few texts: as its users do, for logits where it gives them, several at
once, and with texts as long as the checkpoint reads and longer. The checkpoint is loaded here, and
what it would answer is computed as it is, and with each fault that servers are known to have.
Legend: n probes, c classes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from heads.backbone.models import BUNDLED
from heads.classifier.classifier import Classifier
from heads.classifier.pretrained import load
from heads.errors import DataError, LimitError
from heads.extras.serving import clients
from heads.extras.serving.asking import ask
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
    halved_misfit,
    judge,
    own_output,
)
from heads.extras.serving.labels import Labels, OtherLabels, labels_of
from heads.extras.serving.long_texts import LongTexts
from heads.extras.serving.probes import Probes, probes_of
from heads.extras.serving.report import EndpointFinding, EndpointReport, fault, note
from heads.extras.serving.variants import Deviation, Variants, encoded, other_inputs
from heads.parts.resolve import resolve
from heads.settings import Limits

UNSTEADY = 0.02  # of the mean deviation of scores: far above what half precision changes
SHORT, FEWEST = (0.75, 0.5, 0.25), 3  # of the probes, by their tokens; and at least so many
MOST_NAMED = 3
PADDING_HINT = "Give its model the attention mask, and its tokenizer the padding side and token."

Moved = Callable[[tuple[int, ...]], Deviation | None]


def check_endpoint(
    url: str,
    model: str,
    limits: Limits,
    *,
    server: str = "auto",
    texts: Sequence[str] = (),
    pairs: Sequence[str] = (),
    paired: bool = False,
    headers: Sequence[str] = (),
    endpoint: str = "",
    long: bool = True,
) -> EndpointReport:
    """What `heads.check_endpoint` does.

    Raises:
        LimitError: This is a public place, from which nothing is sent for strangers.
        EndpointError: There is no server, or its answers cannot be read.
        HeadsError: The checkpoint does not load, or the texts do not suit it.
    """
    if limits.public:
        what = "Endpoints are asked from your own machine, and not from a page for strangers."
        raise LimitError(what, "Install Head to Head, and run heads check-endpoint.")
    http = clients.Http(url, headers)
    try:
        classifier = load(model, BUNDLED, resolve("mean+linear"), limits)
        probes = probes_of(classifier, texts, pairs, paired, limits)
        asked = clients.connect(http, server, endpoint=endpoint, texts=2 if probes.pairs else 1)
        if probes.pairs and not asked.takes_pairs:
            what = f"{asked.called} takes one text at a time, and this head needs two."
            raise DataError(what, "Serve it by text-embeddings-inference or by Transformers.")
        return _Check(classifier, probes, asked, model).report(long=long)
    finally:
        http.close()


class _Check:
    """One checkpoint held to one server."""

    def __init__(
        self, classifier: Classifier, probes: Probes, server: clients.Server, model: str
    ) -> None:
        self.classifier = classifier
        self.probes = probes
        self.server = server
        self.model = model
        self.backbone = classifier.backbone
        self.problem = classifier.head.problem
        self.own = own_output(self.problem)
        self.variants = Variants(classifier.backbone, classifier.head.module)
        kind = "pairs of texts" if probes.pairs else "texts"
        self.asked = [f"{len(probes)} {kind}, each by itself, as users ask who name no parameter."]

    def report(self, *, long: bool) -> EndpointReport:
        """Asks, and finds out what the answers mean."""
        answers = ask(self.server, self.probes, self.own)
        if answers.raw:
            self.asked.append(f"The same for logits: {self.server.raw_by}.")
        if answers.batched:
            self.asked.append("The same several at once, short ones beside long ones.")
        try:
            labels = labels_of([*answers.usual, *answers.raw], self.classifier.classes)
        except OtherLabels as error:
            return self._reported([*answers.notes, fault("labels", error.what, error.hint)])
        ways = [(answers.usual, False), (answers.raw, True)]
        series = [self._series(labels.matrix(rows), is_raw=is_raw) for rows, is_raw in ways if rows]
        told = partial(self._moved_told, labels)
        fitting = Fitting(series, self.problem, self._output_told, told)
        if random := self._of_repeats(series[0], labels.matrix(answers.repeated)):
            return self._reported([*answers.notes, random])
        verdict = self._verdict(fitting, range(len(self.probes)))
        left_out, whole = list[int](), (fitting, verdict.own)
        if verdict.best is None:  # perhaps long ones are cut, and short ones tell the rest
            fitting, verdict, left_out = self._of_short(series, told, fitting, verdict)
        findings = [*answers.notes, *self._of_labels(labels)]
        findings += self._of_verdict(verdict, fitting)
        if answers.batched:
            batched = labels.matrix(answers.batched)
            findings += self._of_batch(series[0], batched, verdict.best or verdict.own, fitting)
        tried = LongTexts(self.server, self.variants, self.probes, fitting, verdict, labels)
        if left_out:
            of_long = list(tried.of_probes(left_out, series))
            findings += of_long or [self._unexplained(whole[1], whole[0])]
        findings += tried.findings() if long and not left_out else ()
        self.asked += tried.asked
        return self._reported(findings, *whole)

    def _verdict(self, fitting: Fitting, rows: Sequence[int]) -> Verdict:
        """What explains the answers to some of the probes."""
        encode = (self.backbone, *self.probes.rows(rows))
        siamese = self.variants.module.is_siamese
        inputs = encoded(*encode, siamese=siamese)
        return judge(fitting, self.variants, inputs, other_inputs(*encode, siamese=siamese))

    def _of_short(
        self, series: Sequence[Series], told: Moved, whole: Fitting, found: Verdict
    ) -> tuple[Fitting, Verdict, list[int]]:
        """What explains the answers to the shorter probes alone, and which are left out then."""
        inputs = encoded(
            self.backbone,
            *self.probes.rows(range(len(self.probes))),
            siamese=self.variants.module.is_siamese,
        )
        order = sorted(range(len(inputs)), key=lambda n: max(map(len, inputs[n])))
        for share in SHORT:
            rows = order[: int(share * len(order))]
            if len(rows) < FEWEST:
                break
            some = [replace(one, scores=one.scores[rows]) for one in series]
            fitting = Fitting(some, self.problem, self._output_told, told)
            verdict = self._verdict(fitting, rows)
            if verdict.best is not None:
                return fitting, verdict, order[len(rows) :]
        return whole, found, []

    def _reported(
        self,
        findings: Sequence[EndpointFinding],
        fitting: Fitting | None = None,
        own: Fit | None = None,
    ) -> EndpointReport:
        difference, agreement = None, None
        if fitting and own:
            expected = fitting.expected(own, self._logits(own))[0]
            difference = fitting.series[0].largest(expected)
            agreement = _agreement(fitting.series[-1].scores, self._logits(own))
        return EndpointReport(
            url=self.server.http.shown,
            server=self.server.called,
            served=self.server.model,
            model=self.model,
            recipe=str(self.classifier.recipe),
            probes=len(self.probes),
            asked=tuple(self.asked),
            findings=tuple(sorted(findings, key=lambda one: one.weight)),
            difference=difference,
            agreement=agreement,
        )

    def _series(self, scores: Tensor, *, is_raw: bool) -> Series:
        accepted = (LOGITS,) if is_raw else (self.own,)
        if not is_raw and self.own == LOGITS and self.server.squashes_numbers:
            accepted = (LOGITS, SIGMOID)
        return Series(is_raw=is_raw, scores=scores, accepted=accepted)

    def _logits(self, fit: Fit) -> Tensor:
        logits = self.variants.logits(fit.variant, self.variants.read(fit.inputs))
        assert logits is not None
        return logits

    def _output_told(self, series: Series, name: str) -> Deviation:
        """What to say of scores that are made of the logits in another way than they should be."""
        output, _, factor = name.partition(SCALED_BY)
        if factor:
            says = (
                f"The logits are multiplied by {factor} (a temperature of {1 / float(factor):.3g}) "
                f"before they become scores ({output})."
            )
            hint = "Answers stay, probabilities do not: turn the server's temperature off."
            return Deviation(kind="temperature", says=says, hint=hint)
        what = {
            LOGITS: "logits, to which nothing was applied",
            SOFTMAX: "a softmax of the logits",
            SIGMOID: "a sigmoid of each logit",
            TWICE: "a softmax of a softmax",
            LOGARITHM: "logarithms of probabilities",
        }.get(name, name)
        if series.is_raw:
            says = f"Asked for logits ({self.server.raw_by}), it gives {what}."
            hint = "Take no softmax or sigmoid of them again, and no threshold made for logits."
            return Deviation(kind="output", says=says, hint=hint)
        right = {
            SOFTMAX: "a softmax over the classes",
            SIGMOID: "a sigmoid of each logit",
            LOGITS: "the number itself",
        }.get(self.own, self.own)
        says = f"The scores are {what}, and the checkpoint's are {right}."
        hint = "Look at problem_type in the served config.json, and at what the server applies."
        if self.server.raw_by:
            hint = f"{hint[:-1]}; or ask for logits ({self.server.raw_by})."
        return Deviation(kind="output", says=says, hint=hint)

    def _moved_told(self, labels: Labels, moved: tuple[int, ...]) -> Deviation | None:
        """What to say of labels that bear the scores of other classes."""
        classes = self.classifier.classes
        told = [
            f"what the checkpoint calls {classes[number]:.40} the server calls {name:.40}"
            for place, number in enumerate(moved)
            if number != place and (labels.places or labels.names[place])
            for name in (labels.names[place] or classes[place],)
        ]
        if not told:
            return None
        more = f" (and {len(told) - MOST_NAMED} more)" if len(told) > MOST_NAMED else ""
        what = "By their scores" if labels.foreign else "Labels are swapped"
        says = f"{what}: {'; '.join(told[:MOST_NAMED])}{more}."
        hint = "Mend id2label in the config.json that it serves, or the app's list of labels."
        return Deviation(kind="labels", says=says, hint=hint)

    def _of_labels(self, labels: Labels) -> Iterator[EndpointFinding]:
        if labels.foreign:
            names = ", ".join(labels.foreign[:MOST_NAMED])
            known = ", ".join(self.classifier.classes[:MOST_NAMED])
            says = f"The server's labels are {names:.120}, and the checkpoint's {known:.120}."
            yield fault("labels", says, "Mend id2label in the config.json that it serves.")
        if labels.is_numbered:
            says = "The server has lost the labels' names: its numbers were taken in their order."
            yield note("labels", says, "Write id2label into the config.json that it serves.")
        if not labels.is_named:
            yield note("labels", "The scores have no names: they were taken in their order.")

    def _of_verdict(self, verdict: Verdict, fitting: Fitting) -> Iterator[EndpointFinding]:
        if verdict.best is None:
            yield self._unexplained(verdict.own, fitting)
            return
        for one in verdict.best.deviations:
            yield fault(one.kind, one.says, one.hint)
        for other in verdict.others[:MOST_NAMED]:
            also = " ".join(one.says for one in other.deviations)
            yield note("asking", f"These texts cannot tell that from: {also}", "Give more texts.")
        yield from self._of_scores(verdict, fitting)

    def _of_scores(self, verdict: Verdict, fitting: Fitting) -> Iterator[EndpointFinding]:
        """How exact the scores are, and which there were."""
        assert verdict.best is not None
        first, last = fitting.series[0], fitting.series[-1]
        if verdict.is_half:
            expected = fitting.expected(verdict.best, self._logits(verdict.best))
            found = last.largest(expected[-1])
            yield note("precision", f"The scores agree to {found:.2g}, as half precision does.")
        if not last.told.all():
            yield note("asking", "It names some labels only: the scores of those were compared.")
        if verdict.best.outputs[0] != self.own and verdict.best.outputs[0] in first.accepted:
            says = f"{self.server.called} gives a sigmoid of the number that this head answers."
            yield note("output", says, f"The number itself comes with {self.server.raw_by}.")

    def _unexplained(self, own: Fit, fitting: Fitting) -> EndpointFinding:
        expected = fitting.expected(own, self._logits(own))
        largest = fitting.series[0].largest(expected[0])
        share = _agreement(fitting.series[-1].scores, self._logits(own))
        alike = "" if share is None else f", and {share:.0%} of the labels are the same"
        says = (
            "The answers are not those of this checkpoint, and no fault that is known here "
            f"explains them: scores differ by up to {largest:.2g}{alike}."
        )
        hint = "Perhaps it serves other weights, another revision, or weights in 8 bits or less."
        return fault("unexplained", says, hint)

    def _of_repeats(self, series: Series, repeated: Tensor) -> EndpointFinding | None:
        """Whether the same text gets other scores when it is asked again, (r, c)."""
        first = replace(series, scores=series.scores[: len(repeated)])
        largest = first.largest(repeated)
        spread = float((series.scores - series.scores.nanmean(dim=0)).abs().nanmean())
        if largest <= UNSTEADY * spread:
            return None
        says = f"The same text gets other scores when it is asked again: up to {largest:.2g} apart."
        hint = "Dropout is on: put the model into evaluation mode (model.eval())."
        return fault("random", says, hint)

    def _of_batch(
        self, series: Series, batched: Tensor, fit: Fit, fitting: Fitting
    ) -> Iterator[EndpointFinding]:
        """Whether an answer depends on the texts that stand beside it."""
        together = series.misfit(batched)
        if together <= 1 or together <= HALF * halved_misfit(fit, fitting, self.variants):
            return
        if _is_reordered(series, batched):
            says = "The answers of a batch come back in another order than its texts."
            yield fault("order", says, "Undo the server's sorting by length before it answers.")
            return
        found = series.largest(batched)
        says = f"An answer depends on what a text is batched with: scores differ by {found:.2g}."
        if self.backbone.reads_padding:
            yield note("padding", f"{says} So it does in this family itself.")
        else:
            yield fault("padding", says, PADDING_HINT)


def _is_reordered(series: Series, batched: Tensor) -> bool:
    """Tell whether a batch's answers (n, c) are those to its texts in another order."""
    scores, others = series.scores.nan_to_num(), batched.nan_to_num()
    nearest = torch.cdist(others, scores).argmin(dim=1)
    differences = (others - scores[nearest]).square().mean(dim=1).sqrt() / series.tolerance
    return float(differences.median()) <= 1 and len(nearest.unique()) > len(nearest) / 2


def _agreement(scores: Tensor, logits: Tensor) -> float | None:
    """The share of texts to which both give the same label."""
    if logits.shape[1] < 2:
        return None
    named = scores.nan_to_num(-torch.inf).argmax(dim=1)
    return float((named == logits.argmax(dim=1)).float().mean())
