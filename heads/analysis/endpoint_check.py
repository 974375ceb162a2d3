"""Whether a served classifier answers as the head of its checkpoint does, and if not, why.

The server is asked about a few texts: as its users do, for logits where it gives them, several at
once, and with texts as long as the checkpoint reads and longer. The checkpoint is loaded here, and
what it would answer is computed as it is, and with each fault that servers are known to have.
Legend: n probes, c classes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import cycle, islice
from typing import Any, Literal

import torch
from torch import Tensor

from heads import display, interruption
from heads.analysis import endpoint_clients as clients
from heads.analysis.endpoint_fit import (
    HALF,
    LOGARITHM,
    LOGITS,
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
from heads.analysis.endpoint_labels import Labels, OtherLabels, labels_of
from heads.analysis.endpoint_variants import (
    Deviation,
    Inputs,
    Variants,
    cuts,
    encoded,
    other_inputs,
)
from heads.backbone.models import BUNDLED
from heads.classifier.classifier import Classifier
from heads.classifier.pretrained import load
from heads.data.corpus import gate
from heads.errors import DataError, LimitError, ModelError
from heads.parts.resolve import resolve
from heads.settings import Limits

TEXTS = (
    "Good.",
    "Not bad at all.",
    "it was late",
    "The cat sat on a mat.",
    "THE DOG RAN HOME!",
    "a flight cancelled twice",
    "Why not?",
    "no no no",
    "3 of 10, 4.5 kg",
    "Ça va très bien.",
    "Das war nichts.",
    "Всё отлично",
    "とても良い本です",
    "الخدمة ممتازة",
    "yes, and the cat ran on",
    "(a) [b] {c} <d> & e",
    "The soup was cold, the waiter rude, and the bill wrong.",
    "I have never laughed so much in a cinema; go and see it.",
    "Call 0800 123 456 before 17:30 on 3 May 2024, ref. AB-77/1.",
    "my card did not arrive and nobody answers the phone any more",
    "It is neither good nor bad, just another film about two people in Paris.",
    "Despite the rain, the queue and the price, we would come back tomorrow.",
    "The kettle leaks, the handle is cracked, and the shop wants the receipt that came with it. "
    "I had hoped for more.",
    "Set an alarm for half past six, play something quiet until then, and tell me in the morning "
    "whether the train to the airport is on time or I should rather take the car.",
)
SECONDS = (
    "It is fine.",
    "It is bad.",
    "we were early",
    "A dog lay on a mat.",
    "a cat",
    "The plane left on time after all.",
    "Because.",
    "yes",
    "2.5 kg",
    "Comment vas-tu ?",
    "Es war alles.",
    "Ужасно",
    "この本は退屈です",
    "الخدمة سيئة",
    "the dog ran off",
    "f / g",
    "The food was good and the staff friendly.",
    "I left before the end.",
    "Write to us by e-mail.",
    "My card came within two days.",
    "A film about Paris.",
    "We will not come again.",
    "The kettle works.",
    "Wake me at half past six.",
)
MOST_LONG = 2_000  # tokens of a text that is sent
SCANNED = 160  # tokens of a text that is tried cut at every place
CUTS = (
    *(32, 64, 96, 100, 126, 128, 192, 200, 250, 254, 256, 300, 384, 400, 500, 510, 512, 514),
    *(768, 1000, 1022, 1024, 1500, 1536),
)
LONGER = 3.0  # times as far may an answer be off where more is summed than the probes have tokens
MOST_NAMED = 3
SHORT, FEWEST = (0.75, 0.5, 0.25), 3  # of the probes, by their tokens; and at least so many
PADDING_HINT = "Give its model the attention mask, and its tokenizer the padding side and token."

Weight = Literal["fault", "note"]
Moved = Callable[[tuple[int, ...]], Deviation | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFinding:
    """Something that one should know of a served classifier.

    Attributes:
        weight: "fault" where its answers are not those of the checkpoint's own head; else "note".
        kind: What it is about: input, pooling, head, output, labels, padding, truncation,
            precision, asking, or unexplained.
        says: What it is, in a sentence.
        hint: What to do.
    """

    weight: Weight
    kind: str
    says: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport(display.Displayed):
    """Whether a served classifier answers as the head of its checkpoint does.

    Attributes:
        url: The server's address.
        server: What it is, such as text-embeddings-inference.
        served: What it says that it serves; "" where it says nothing.
        model: The checkpoint.
        recipe: The checkpoint's own head, as a recipe.
        probes: How many texts or pairs it was asked about.
        asked: What was asked, a sentence each.
        findings: Faults first.
        difference: The largest difference between a score of the server's and the checkpoint's;
            None where they could not be held together.
        agreement: The share of the texts to which both give the same label; None where there is
            one output only.
    """

    url: str
    server: str
    served: str
    model: str
    recipe: str
    probes: int
    asked: tuple[str, ...]
    findings: tuple[EndpointFinding, ...]
    difference: float | None = None
    agreement: float | None = None

    @property
    def faults(self) -> tuple[EndpointFinding, ...]:
        """What is wrong."""
        return tuple(one for one in self.findings if one.weight == "fault")

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """In one sentence, whether the answers are those of the checkpoint's own head."""
        kinds = {one.kind for one in self.faults}
        if not kinds:
            return "The server's answers are those of the checkpoint's own head."
        many = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        if kinds <= {"truncation", "padding"}:
            return f"The head is the checkpoint's own, but texts are not read as it reads: {many}."
        return f"The server's answers are not those of the checkpoint's own head: {many}."

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "right": self.is_right, "verdict": self.verdict}


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
        probes = _probes(classifier, texts, pairs, paired, limits)
        asked = clients.connect(http, server, endpoint=endpoint, texts=2 if probes.pairs else 1)
        if probes.pairs and not asked.takes_pairs:
            what = f"{asked.called} takes one text at a time, and this head needs two."
            raise DataError(what, "Serve it by text-embeddings-inference or by Transformers.")
        return _Check(classifier, probes, asked, model).report(long=long)
    finally:
        http.close()


# --- What is asked.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probes:
    """The texts that a server is asked about, with as many second texts, or none."""

    texts: tuple[str, ...]
    pairs: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    def row(self, number: int) -> tuple[list[str], list[str]]:
        """One of them, as a server is asked about it."""
        return [self.texts[number]], list(self.pairs[number : number + 1])


def _probes(
    classifier: Classifier,
    texts: Sequence[str],
    pairs: Sequence[str],
    paired: bool,
    limits: Limits,
) -> _Probes:
    """The user's texts, or ours as far as the checkpoint reads them whole."""
    classifier.backbone.check_reads()
    if pairs and len(pairs) != len(texts):
        what = f"There are {len(texts)} texts and {len(pairs)} second texts."
        raise DataError(what, "Give one second text for each text, or none.")
    needs = paired or classifier.head.needs_pairs
    if texts and needs and not pairs:
        raise DataError("This head needs two texts, and there is one.", "Give second texts too.")
    if texts:
        first, second = (
            tuple(gate(text, limits, what) for text in given)
            for given, what in ((texts, "text"), (pairs, "second text"))
        )
        return _Probes(texts=first, pairs=second)
    second = SECONDS if needs else ()
    own = [gate(text, limits) for text in TEXTS], [gate(text, limits) for text in second]
    inputs = encoded(classifier.backbone, *own, siamese=_is_siamese(classifier))
    most = classifier.backbone.tokens
    kept = [n for n, text in enumerate(inputs) if max(side.whole_length for side in text) <= most]
    if len(kept) < 2:
        what = f"This checkpoint reads {most} tokens, too few for the texts that stand ready."
        raise DataError(what, "Give texts of your own with --text.")
    return _Probes(
        texts=tuple(own[0][n] for n in kept), pairs=tuple(own[1][n] for n in kept if second)
    )


def _is_siamese(classifier: Classifier) -> bool:
    return classifier.head.module.is_siamese


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """What a server said of all probes.

    Attributes:
        usual: Asked as its users do, text by text.
        raw: Asked for logits; nothing where it does not give them.
        batched: Asked as its users do, several texts at once; nothing where it does not take them.
        notes: What of it could not be asked.
    """

    usual: list[clients.Scores]
    raw: list[clients.Scores]
    batched: list[clients.Scores]
    notes: tuple[EndpointFinding, ...]


def _ask(server: clients.Server, probes: _Probes, own: str) -> _Answers:
    """Asks a server about all probes.

    Args:
        own: What the checkpoint makes of its logits, by name.
    """
    usual = [_one(server, probes.row(number)) for number in range(len(probes))]
    notes: list[EndpointFinding] = []
    raw, why = _ask_raw(server, probes, usual, own)
    if raw and why:  # the same scores, of which it may have told more
        usual, raw = raw, []
    notes += [_note("asking", why)] if why and own != LOGITS else []
    batched: list[clients.Scores] = []
    if server.most > 1 and len(probes) > 1:
        try:
            batched = _ask_batched(server, probes)
        except clients.Refusal as error:
            notes.append(_note("asking", f"Several texts at once were refused: {error.what}"))
    return _Answers(usual=usual, raw=raw, batched=batched, notes=tuple(notes))


def _one(
    server: clients.Server, row: tuple[list[str], list[str]], *, raw: bool = False
) -> clients.Scores:
    interruption.check()
    return server.ask(*row, raw=raw)[0]


def _ask_raw(
    server: clients.Server, probes: _Probes, usual: list[clients.Scores], own: str
) -> tuple[list[clients.Scores], str]:
    """The answers to a question for logits, and why they are none, where they are not."""
    if not server.raw_by:
        return [], ""
    rows = [probes.row(number) for number in range(len(probes))]
    try:
        found = [_one(server, row, raw=True) for row in rows]
        if isinstance(server, clients.Vllm) and _same(usual, found) and own != LOGITS:
            server.with_older_switch()
            found = [_one(server, row, raw=True) for row in rows]
    except clients.Refusal as error:
        return [], f"Asked for logits ({server.raw_by}), it refused: {error.what}"
    if _same(usual, found) and not (server.always_raw and own != LOGITS):
        why = f"Asked for logits ({server.raw_by}), it gives the same scores as without that."
        return found, why
    return found, ""


def _same(some: Sequence[clients.Scores], others: Sequence[clients.Scores]) -> bool:
    """Whether two answers tell of every text the same, as far as the first one tells."""
    for one, other in zip(some, others, strict=True):
        values = dict(zip(_keys(other), other.values, strict=True))
        for key, value in zip(_keys(one), one.values, strict=True):
            if abs(values.get(key, torch.inf) - value) > 1e-6 * max(1.0, abs(value)):
                return False
    return True


def _keys(one: clients.Scores) -> list[object]:
    return list(range(len(one.values))) if "" in one.names else [*one.names]


def _ask_batched(server: clients.Server, probes: _Probes) -> list[clients.Scores]:
    """The same question about several texts at once, short ones beside long ones."""
    order = sorted(range(len(probes)), key=lambda n: len(probes.texts[n]))
    size = min(server.most, len(order))
    found: dict[int, clients.Scores] = {}
    blocks = -(-len(order) // size)
    for block in range(blocks):
        rows = order[block::blocks]
        pairs = [probes.pairs[n] for n in rows] if probes.pairs else []
        interruption.check()
        answers = server.ask([probes.texts[n] for n in rows], pairs)
        found |= dict(zip(rows, answers, strict=True))
    return [found[number] for number in range(len(probes))]


# --- What it means.


def _fault(kind: str, says: str, hint: str = "") -> EndpointFinding:
    return EndpointFinding(weight="fault", kind=kind, says=says, hint=hint)


def _note(kind: str, says: str, hint: str = "") -> EndpointFinding:
    return EndpointFinding(weight="note", kind=kind, says=says, hint=hint)


class _Check:
    """One checkpoint held to one server."""

    def __init__(
        self, classifier: Classifier, probes: _Probes, server: clients.Server, model: str
    ) -> None:
        self.classifier = classifier
        self.probes = probes
        self.server = server
        self.model = model
        self.backbone = classifier.backbone
        self.problem = classifier.head.problem
        self.own = own_output(self.problem)
        self.variants = Variants(classifier.backbone, classifier.head.module)
        self.asked = [self._first_asked()]

    def _first_asked(self) -> str:
        kind = "pairs of texts" if self.probes.pairs else "texts"
        return f"{len(self.probes)} {kind}, each by itself, as users ask who name no parameter."

    def report(self, *, long: bool) -> EndpointReport:
        """Asks, and finds out what the answers mean."""
        answers = _ask(self.server, self.probes, self.own)
        if answers.raw:
            self.asked.append(f"The same for logits: {self.server.raw_by}.")
        if answers.batched:
            self.asked.append("The same several at once, short ones beside long ones.")
        try:
            labels = labels_of([*answers.usual, *answers.raw], self.classifier.classes)
        except OtherLabels as error:
            return self._reported([*answers.notes, _fault("labels", error.what, error.hint)])
        series = [self._series(labels.matrix(answers.usual), is_raw=False)]
        if answers.raw:
            series.append(self._series(labels.matrix(answers.raw), is_raw=True))
        told = partial(self._moved_told, labels)
        fitting = Fitting(series, self.problem, self._output_told, told)
        verdict = self._verdict(fitting, range(len(self.probes)))
        left_out, whole = list[int](), (fitting, verdict.own)
        if verdict.best is None:  # perhaps long ones are cut, and short ones tell the rest
            fitting, verdict, left_out = self._of_short(series, told, fitting, verdict)
        findings = [*answers.notes, *self._of_labels(labels)]
        findings += self._of_verdict(verdict, fitting)
        if answers.batched:
            batched = labels.matrix(answers.batched)
            findings += self._of_batch(series[0], batched, verdict.best or verdict.own, fitting)
        tried = _LongTexts(self, fitting, verdict, labels)
        findings += tried.of_probes(left_out, series)
        findings += tried.findings() if long and not left_out else ()
        return self._reported(findings, *whole)

    def _inputs(self, rows: Sequence[int]) -> tuple[Sequence[str], Sequence[str]]:
        """Some of the probes."""
        pairs = self.probes.pairs
        return [self.probes.texts[n] for n in rows], [pairs[n] for n in rows if pairs]

    def _verdict(self, fitting: Fitting, rows: Sequence[int]) -> Verdict:
        """What explains the answers to some of the probes."""
        encode = (self.backbone, *self._inputs(rows))
        siamese = _is_siamese(self.classifier)
        inputs = encoded(*encode, siamese=siamese)
        return judge(fitting, self.variants, inputs, other_inputs(*encode, siamese=siamese))

    def _of_short(
        self, series: Sequence[Series], told: Moved, whole: Fitting, found: Verdict
    ) -> tuple[Fitting, Verdict, list[int]]:
        """What explains the answers to the shorter probes alone, and which are left out then."""
        inputs = encoded(
            self.backbone,
            *self._inputs(range(len(self.probes))),
            siamese=_is_siamese(self.classifier),
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
            if number != place and (name := labels.names[place] or classes[place])
        ]
        if not told or labels.foreign:
            return None
        more = f" (and {len(told) - MOST_NAMED} more)" if len(told) > MOST_NAMED else ""
        says = f"Labels are swapped: {'; '.join(told[:MOST_NAMED])}{more}."
        hint = "Mend id2label in the config.json that it serves, or the app's list of labels."
        return Deviation(kind="labels", says=says, hint=hint)

    def _of_labels(self, labels: Labels) -> Iterator[EndpointFinding]:
        if labels.foreign:
            names = ", ".join(labels.foreign[:MOST_NAMED])
            known = ", ".join(self.classifier.classes[:MOST_NAMED])
            says = f"The server's labels are {names:.120}, and the checkpoint's {known:.120}."
            yield _fault("labels", says, "Mend id2label in the config.json that it serves.")
        if labels.is_numbered:
            says = "The server has lost the labels' names: its numbers were taken in their order."
            yield _note("labels", says, "Write id2label into the config.json that it serves.")
        if not labels.is_named:
            yield _note("labels", "The scores have no names: they were taken in their order.")

    def _of_verdict(self, verdict: Verdict, fitting: Fitting) -> Iterator[EndpointFinding]:
        if verdict.best is None:
            yield self._unexplained(verdict.own, fitting)
            return
        for one in verdict.best.deviations:
            yield _fault(one.kind, one.says, one.hint)
        for other in verdict.others[:MOST_NAMED]:
            also = " ".join(one.says for one in other.deviations)
            yield _note("asking", f"These texts cannot tell that from: {also}", "Give more texts.")
        yield from self._of_scores(verdict, fitting)

    def _of_scores(self, verdict: Verdict, fitting: Fitting) -> Iterator[EndpointFinding]:
        """How exact the scores are, and which there were."""
        assert verdict.best is not None
        first = fitting.series[0]
        if verdict.is_half:
            expected = fitting.expected(verdict.best, self._logits(verdict.best))
            found = fitting.series[-1].largest(expected[-1])
            yield _note("precision", f"The scores agree to {found:.2g}, as half precision does.")
        if not first.told.all():
            yield _note("asking", "It names some labels only: the scores of those were compared.")
        if verdict.best.outputs[0] != self.own and verdict.best.outputs[0] in first.accepted:
            says = f"{self.server.called} gives a sigmoid of the number that this head answers."
            yield _note("output", says, f"The number itself comes with {self.server.raw_by}.")

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
        return _fault("unexplained", says, hint)

    def _of_batch(
        self, series: Series, batched: Tensor, fit: Fit, fitting: Fitting
    ) -> Iterator[EndpointFinding]:
        """Whether an answer depends on the texts that stand beside it."""
        together = series.misfit(batched)
        if together <= 1 or together <= HALF * halved_misfit(fit, fitting, self.variants):
            return
        found = series.largest(batched.where(series.told, torch.nan).nan_to_num(0.0))
        says = (
            f"An answer depends on what a text is batched with: scores differ by up to {found:.2g}."
        )
        if self.backbone.reads_padding:
            yield _note("padding", f"{says} So it does in this family itself.")
        else:
            yield _fault("padding", says, PADDING_HINT)


def _agreement(scores: Tensor, logits: Tensor) -> float | None:
    """The share of texts to which both give the same label."""
    if logits.shape[1] < 2:
        return None
    named = scores.nan_to_num(-torch.inf).argmax(dim=1)
    return float((named == logits.argmax(dim=1)).float().mean())


# --- Texts as long as the checkpoint reads, and longer.


class _LongTexts:
    """What becomes of long texts, of which beginning and end would be answered differently."""

    def __init__(self, check: _Check, fitting: Fitting, verdict: Verdict, labels: Labels) -> None:
        self.check = check
        self.fitting = fitting
        self.labels = labels
        self.fit = verdict.best
        self.most = check.backbone.tokens
        self.is_half = verdict.is_half
        self.siamese = _is_siamese(check.classifier)
        self.pair = min(check.probes.pairs, key=len, default="")

    def findings(self) -> Iterator[EndpointFinding]:
        """What is wrong with the answers to long texts, or could not be tried."""
        if self.fit is None or any(one.kind == "input" for one in self.fit.deviations):
            yield _note("truncation", "How long texts are read was not tried, with such answers.")
            return
        begin, end = self._farthest()
        most = min(self.most, MOST_LONG)
        within = self._text(begin, end, most)
        if found := list(self._tried(within, "as long as the checkpoint reads")):
            yield from found  # what is longer has the same fault
            return
        over = self.most + max(12, self.most // 3)
        if over > MOST_LONG:
            says = f"No text over the checkpoint's limit of {self.most:,} tokens was tried."
            yield _note("truncation", says)
            return
        yield from self._tried(self._text(begin, end, over), "longer than the checkpoint reads")

    def of_probes(self, rows: Sequence[int], series: Sequence[Series]) -> Iterator[EndpointFinding]:
        """What became of probes that are longer than those by which the rest was found out."""
        for row in reversed(rows):  # the longest first
            (text,), pairs = self.check.probes.row(row)
            self.pair = pairs[0] if pairs else ""
            found = list(self._judged(text, self._tokens(text), [s.scores[[row]] for s in series]))
            if found:
                yield from found
                return

    def _farthest(self) -> tuple[str, str]:
        """Two of the probes that the checkpoint answers most differently."""
        logits = self.check._logits(self.fit) if self.fit else torch.zeros(1, 1)
        distances = torch.cdist(logits, logits)
        one, other = divmod(int(distances.argmax()), len(logits))
        return self.check.probes.texts[one], self.check.probes.texts[other]

    def _text(self, begin: str, end: str, most: int) -> str:
        """The longest text of so many tokens whose halves repeat one and the other text."""
        low, high = 1, 2 * most
        while low < high:
            middle = (low + high + 1) // 2
            if self._tokens(_halves(begin, end, middle)) <= most:
                low = middle
            else:
                high = middle - 1
        return _halves(begin, end, low)

    def _tokens(self, text: str) -> int:
        pairs = [self.pair] if self.pair else []
        (inputs,) = encoded(self.check.backbone, [text], pairs, siamese=self.siamese)
        return inputs[0].whole_length

    def _tried(self, text: str, how: str) -> Iterator[EndpointFinding]:
        tokens = self._tokens(text)
        is_over = tokens > self.most
        self.check.asked.append(f"A text of {tokens:,} tokens, {how}.")
        row = ([text], [self.pair] if self.pair else [])
        try:
            answers = [_one(self.check.server, row, raw=one.is_raw) for one in self.fitting.series]
        except clients.Refusal as error:
            if error.status in (401, 403, *clients.BUSY):
                raise
            if is_over:
                says = f"A text of {tokens:,} tokens is refused ({error.status}), as it should be."
                yield _note("truncation", says)
            else:
                says = f"A text of {tokens:,} tokens is refused, which the checkpoint reads whole."
                yield _fault("truncation", says, error.what)
            return
        scores = [self.labels.matrix([one]) for one in answers]
        yield from self._judged(text, tokens, scores)

    def _judged(self, text: str, tokens: int, scores: list[Tensor]) -> Iterator[EndpointFinding]:
        """What an answer to a long text means."""
        if self._is_whole(text, tokens, scores):
            if tokens > self.most:
                says = (
                    f"A text of {tokens:,} tokens is read whole, beyond the {self.most:,} of the "
                )
                yield _note("truncation", f"{says}checkpoint's limit.")
            return
        found = self._cut_at(text, tokens, scores)
        if found is None:
            says = f"A text of {tokens:,} tokens is answered otherwise, and no cut explains it."
            yield _fault("truncation", says, "Look at how the server reads long texts.")
            return
        at, which = found
        early = f" The checkpoint reads {self.most:,}." if at < min(self.most, tokens) - 2 else ""
        says = (
            f"A text of {tokens:,} tokens is cut in silence: it reads {which} {at:,} tokens.{early}"
        )
        yield _fault("truncation", says, self.check.server.whole_texts)

    def _is_whole(self, text: str, tokens: int, scores: list[Tensor]) -> bool:
        backbone = replace(self.check.backbone, tokens=tokens)
        pairs = [self.pair] if self.pair else []
        (inputs,) = encoded(backbone, [text], pairs, siamese=self.siamese)
        return self._misfit(inputs, scores) <= 1

    def _cut_at(self, text: str, tokens: int, scores: list[Tensor]) -> tuple[int, str] | None:
        """After how many tokens it is cut, and which of them are left."""
        announced = [one for one in (self.most, self.check.server.tokens) if 2 < one < tokens]
        others = range(3, tokens) if tokens <= SCANNED else [n for n in CUTS if n < tokens]
        found: list[tuple[float, int, str]] = []
        for most in dict.fromkeys((*announced, *others)):
            interruption.check()
            ways = cuts(self.check.backbone, text, self.pair, most, siamese=self.siamese)
            misfits = [(self._misfit(one, scores), most, which) for which, one in ways]
            if misfits and min(misfits)[0] <= 1 and most in announced:
                return min(misfits)[1:]
            found += [one for one in misfits if one[0] <= 1]
        return min(found)[1:] if found else None

    def _misfit(self, inputs: Inputs, scores: list[Tensor]) -> float:
        """How far the answer is from that to these tokens; 1 is as far as it may be."""
        assert self.fit is not None
        variants = self.check.variants
        try:
            logits = variants.logits(self.fit.variant, variants.read([inputs]))
        except ModelError:  # more tokens than it has places for
            return torch.inf
        if logits is None:
            return torch.inf
        expected = self.fitting.expected(self.fit, logits)
        misfit = self._apart(scores, expected)
        half = variants.halved if self.is_half else None
        if half is None:
            return misfit / LONGER
        least = misfit / (HALF * self._halved)
        if not 1 < least <= LONGER:  # what more tokens can change in half precision does not matter
            return least
        rounded = half.logits(self.fit.variant, half.read([inputs]))
        assert rounded is not None
        noise = self._apart(self.fitting.expected(self.fit, rounded), expected)
        return misfit / (HALF * max(noise, self._halved))

    @cached_property
    def _halved(self) -> float:
        """By how much bfloat16 changes the scores of the probes, in tolerances."""
        assert self.fit is not None
        return max(1.0, halved_misfit(self.fit, self.fitting, self.check.variants))

    def _apart(self, some: Sequence[Tensor], others: Sequence[Tensor]) -> float:
        """The distance of two answers in tolerances, (1, c) each."""
        triples = zip(self.fitting.series, some, others, strict=True)
        return max(
            float((one - other)[~one.isnan()].square().mean().sqrt()) / series.tolerance
            for series, one, other in triples
        )


def _halves(begin: str, end: str, words: int) -> str:
    """So many words: the first half of one text, over and over, the second of another."""
    first = islice(cycle(begin.split()), (words + 1) // 2)
    second = islice(cycle(end.split()), words // 2)
    return " ".join((*first, *second))
