"""Whether texts as long as the checkpoint reads are read whole, and longer ones refused.

Legend: c classes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import cycle, islice

import torch
from torch import Tensor

from heads import interruption
from heads.extras.serving import clients
from heads.extras.serving.asking import ask_one
from heads.extras.serving.fitting import (
    ALIKE,
    BETTER,
    HALF,
    Fit,
    Fitting,
    Series,
    Verdict,
    halved_misfit,
)
from heads.extras.serving.labels import Labels
from heads.extras.serving.probes import Probes
from heads.extras.serving.report import EndpointFinding, fault, note
from heads.extras.serving.variants import Inputs, Variants, cuts, encoded

MOST_LONG = 2_000  # tokens of a text that is sent
SCANNED = 160  # tokens of a text that is tried cut at every place
STEP, REFINED = 16, 4  # of a longer text every 16th place is tried, and all beside the 4 best
FIRST = "the first"
LONGER = 3.0  # times as far may an answer be off where more is summed than the probes have tokens


class LongTexts:
    """What becomes of long texts, of which beginning and end would be answered differently.

    Attributes:
        asked: What was asked, a sentence each.
    """

    def __init__(
        self,
        server: clients.Server,
        variants: Variants,
        probes: Probes,
        fitting: Fitting,
        verdict: Verdict,
        labels: Labels,
    ) -> None:
        self.asked: list[str] = []
        self._server = server
        self._variants = variants
        self._backbone = variants.backbone
        self._probes = probes
        self._fitting = fitting
        self._fit = verdict.best
        self._is_half = verdict.is_half
        self._labels = labels
        self._most = self._backbone.tokens
        self._siamese = variants.module.is_siamese
        self._pair = min(probes.pairs, key=len, default="")

    def findings(self) -> Iterator[EndpointFinding]:
        """What is wrong with the answers to long texts, or could not be tried."""
        if self._fit is None or any(one.kind == "input" for one in self._fit.deviations):
            yield note("truncation", "How long texts are read was not tried, with such answers.")
            return
        begin, end = self._farthest(self._fit)
        most = min(self._most, MOST_LONG)
        within = self._text(begin, end, most)
        if found := list(self._tried(within, "as long as the checkpoint reads")):
            yield from found  # what is longer has the same fault
            return
        over = self._most + max(12, self._most // 3)
        if over > MOST_LONG:
            says = f"No text over the checkpoint's limit of {self._most:,} tokens was tried."
            yield note("truncation", says)
            return
        yield from self._tried(self._text(begin, end, over), "longer than the checkpoint reads")

    def of_probes(self, rows: Sequence[int], series: Sequence[Series]) -> Iterator[EndpointFinding]:
        """What became of probes that are longer than those by which the rest was found out."""
        for row in reversed(rows):  # the longest first
            (text,), pairs = self._probes.row(row)
            self._pair = pairs[0] if pairs else ""
            found = list(self._judged(text, self._tokens(text), [s.scores[[row]] for s in series]))
            if found:
                yield from found
                return

    def _farthest(self, fit: Fit) -> tuple[str, str]:
        """Two of the probes that the checkpoint answers most differently."""
        logits = self._variants.logits(fit.variant, self._variants.read(fit.inputs))
        assert logits is not None
        distances = torch.cdist(logits, logits)
        one, other = divmod(int(distances.argmax()), len(logits))
        return self._probes.texts[one], self._probes.texts[other]

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
        pairs = [self._pair] if self._pair else []
        (inputs,) = encoded(self._backbone, [text], pairs, siamese=self._siamese)
        return inputs[0].whole_length

    def _tried(self, text: str, how: str) -> Iterator[EndpointFinding]:
        tokens = self._tokens(text)
        is_over = tokens > self._most
        self.asked.append(f"A text of {tokens:,} tokens, {how}.")
        row = ([text], [self._pair] if self._pair else [])
        try:
            answers = [ask_one(self._server, row, raw=one.is_raw) for one in self._fitting.series]
        except clients.Refusal as error:
            if error.status in (401, 403, *clients.BUSY):
                raise
            if is_over:
                says = f"A text of {tokens:,} tokens is refused ({error.status}), as it should be."
                yield note("truncation", says)
            else:
                says = f"A text of {tokens:,} tokens is refused, which the checkpoint reads whole."
                yield fault("truncation", says, error.what)
            return
        scores = [self._labels.matrix([one]) for one in answers]
        yield from self._judged(text, tokens, scores)

    def _judged(self, text: str, tokens: int, scores: list[Tensor]) -> Iterator[EndpointFinding]:
        """What an answer to a long text means."""
        if self._is_whole(text, tokens, scores):
            if tokens > self._most:
                says = f"A text of {tokens:,} tokens is read whole; the checkpoint's limit is "
                yield note("truncation", f"{says}{self._most:,}.")
            return
        found = self._cut_at(text, tokens, scores)
        if found is None:
            says = f"A text of {tokens:,} tokens is answered otherwise, and no cut explains it."
            yield fault("truncation", says, "Look at how the server reads long texts.")
            return
        places, which = found
        if which == FIRST and self._most in places:
            says = f"A text of {tokens:,} tokens is cut to the first {self._most:,} without an "
            yield note("truncation", says + "error, as the checkpoint's own tokenizer can do.")
            return
        many = " to ".join(f"{at:,}" for at in dict.fromkeys((places[0], places[-1])))
        is_early = places[-1] < min(self._most, tokens) - 2
        early = f" The checkpoint reads {self._most:,}." if is_early else ""
        says = f"A text of {tokens:,} tokens is cut in silence: it reads {which} {many} tokens."
        says += early
        yield fault("truncation", says, self._server.whole_texts)

    def _is_whole(self, text: str, tokens: int, scores: list[Tensor]) -> bool:
        backbone = replace(self._backbone, tokens=tokens)
        pairs = [self._pair] if self._pair else []
        (inputs,) = encoded(backbone, [text], pairs, siamese=self._siamese)
        return self._misfit(inputs, scores) <= 1

    def _cut_at(self, text: str, tokens: int, scores: list[Tensor]) -> tuple[list[int], str] | None:
        """After how many tokens it may be cut, and which of them are left."""
        announced = [one for one in (self._most, self._server.tokens) if 2 < one < tokens]
        tried: dict[int, list[tuple[float, int, str]]] = {}

        def try_cuts(places: Iterable[int]) -> None:
            for most in places:
                if most in tried or not 2 < most < tokens:
                    continue
                interruption.check()
                ways = cuts(self._backbone, text, self._pair, most, siamese=self._siamese)
                tried[most] = [(self._misfit(one, scores), most, which) for which, one in ways]

        try_cuts((*announced, *range(3, tokens, 1 if tokens <= SCANNED else STEP)))
        if tokens > SCANNED:
            closest = sorted(tried, key=lambda most: min(tried[most]))[:REFINED]
            try_cuts(n for most in closest for n in range(most - STEP, most + STEP + 1))
        found = [one for ways in tried.values() for one in ways if one[0] <= 1]
        if not found:
            return None
        least, _, which = min(found)
        near = {n for far, n, side in found if side == which and far <= max(ALIKE, BETTER * least)}
        if not self._is_half:  # of places that are alike to the last bit, the one that is announced
            near = near.intersection(announced) or near
        return sorted(near), which

    def _misfit(self, inputs: Inputs, scores: list[Tensor]) -> float:
        """How far the answer is from that to these tokens; 1 is as far as it may be."""
        assert self._fit is not None
        variants = self._variants
        logits = variants.tried(self._fit.variant, [inputs])
        if logits is None:  # more tokens than it has places for
            return torch.inf
        expected = self._fitting.expected(self._fit, logits)
        misfit = self._apart(scores, expected)
        half = variants.halved if self._is_half else None
        if half is None:
            return misfit / LONGER
        least = misfit / (HALF * self._halved)
        if not 1 < least <= LONGER:  # what more tokens can change in half precision does not matter
            return least
        rounded = half.tried(self._fit.variant, [inputs])
        if rounded is None:
            return least
        noise = self._apart(self._fitting.expected(self._fit, rounded), expected)
        return misfit / (HALF * max(noise, self._halved))

    @cached_property
    def _halved(self) -> float:
        """By how much bfloat16 changes the scores of the probes, in tolerances."""
        assert self._fit is not None
        return max(1.0, halved_misfit(self._fit, self._fitting, self._variants))

    def _apart(self, some: Sequence[Tensor], others: Sequence[Tensor]) -> float:
        """The distance of two answers in tolerances, (1, c) each."""
        triples = zip(self._fitting.series, some, others, strict=True)
        return max(
            float((one - other)[~one.isnan()].square().mean().sqrt()) / series.tolerance
            for series, one, other in triples
        )


def _halves(begin: str, end: str, words: int) -> str:
    """So many words: the first half of one text, over and over, the second of another."""
    first = islice(cycle(begin.split()), (words + 1) // 2)
    second = islice(cycle(end.split()), words // 2)
    return " ".join((*first, *second))
