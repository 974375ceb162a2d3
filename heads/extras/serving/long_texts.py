"""Check whether texts as long as the checkpoint reads are read whole, and longer ones refused.

Legend: c classes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle, islice

import torch
from torch import Tensor

from heads import interruption
from heads.extras.serving.encoding import Inputs, Row, RowEncoder
from heads.extras.serving.fitting import ALIKE, BETTER, HALF, Fit, Fitting, Verdict
from heads.extras.serving.http import REFUSING, RefusedError
from heads.extras.serving.labels import Labels
from heads.extras.serving.report import CheckFinding, fault, note
from heads.extras.serving.servers import Server

MOST_TOKENS = 2_000  # of a text that is sent
SCANNED = 160  # tokens of a text for which a cut is tried at every place
STEP, REFINED = 16, 4  # of a longer text every 16th place is tried, and all beside the 4 best
FIRST = "the first"
LONGER = 3.0  # times as far may an answer be off where more is summed than the probes have tokens


@dataclass(frozen=True, eq=False)
class LongTexts:
    """Long texts whose beginning and end the checkpoint would answer differently."""

    server: Server
    rows: Sequence[Row]
    labels: Labels
    verdict: Verdict
    asked: list[str] = field(default_factory=list)  # the requests, a sentence each

    @property
    def _fit(self) -> Fit:
        return self.verdict.best or self.verdict.own

    @property
    def _fitting(self) -> Fitting:
        return self.verdict.fitting

    @property
    def _encoder(self) -> RowEncoder:
        return self._fitting.variants.encoder

    @property
    def _limit(self) -> int:
        return self._encoder.backbone.tokens

    def iter_findings(self) -> Iterator[CheckFinding]:
        """Yield what is wrong with the answers to long texts, or could not be tried."""
        if self.verdict.best is None or any(one.kind == "input" for one in self._fit.faults):
            yield note("truncation", "Long texts were not tried: such answers do not show a cut.")
            return
        whole = self._build_row(min(self._limit, MOST_TOKENS))
        if findings := list(self._iter_tried(whole, "as long as the checkpoint reads")):
            yield from findings  # what is longer has the same fault
            return
        over = self._limit + max(12, self._limit // 3)
        if over > MOST_TOKENS:
            says = f"No text over the checkpoint's limit of {self._limit:,} tokens was tried."
            yield note("truncation", says)
            return
        yield from self._iter_tried(self._build_row(over), "longer than the checkpoint reads")

    def iter_probes(
        self, numbers: Sequence[int], scores: Sequence[Tensor]
    ) -> Iterator[CheckFinding]:
        """Yield what is wrong with the longest probe that shows it; scores (n, c) are of all."""
        for number in reversed(numbers):
            if findings := list(self._judge(self.rows[number], [s[[number]] for s in scores])):
                yield from findings
                return

    @cached_property
    def _ends(self) -> tuple[list[str], list[str]]:
        """The words of the two probes that the checkpoint answers most differently."""
        distances = torch.cdist(self._fit.logits, self._fit.logits)
        begin, end = divmod(int(distances.argmax()), len(distances))
        return self.rows[begin][0].split(), self.rows[end][0].split()

    def _build_row(self, most: int) -> Row:
        """Return the longest row of so many tokens; each half of its text repeats one probe."""
        begin, end = self._ends
        pair = min((row[1:] for row in self.rows), key=lambda rest: sum(map(len, rest)))

        def build(words: int) -> Row:
            first, second = islice(cycle(begin), (words + 1) // 2), islice(cycle(end), words // 2)
            return (" ".join((*first, *second)), *pair)

        counts = range(1, 2 * most + 1)
        words = bisect_right(counts, most, key=lambda words: self._count_tokens(build(words)))
        return build(max(1, words))

    def _count_tokens(self, row: Row) -> int:
        return self._encoder.encode([row])[0][0].whole_length

    def _iter_tried(self, row: Row, how: str) -> Iterator[CheckFinding]:
        """Send a row, and yield what is wrong with the answer."""
        tokens = self._count_tokens(row)
        self.asked.append(f"A text of {tokens:,} tokens, {how}.")
        series = self._fitting.series
        try:
            answers = [self.server.ask_one(row, raw=one.is_raw) for one in series]
        except RefusedError as error:
            if error.status in REFUSING:
                raise
            text = f"A text of {tokens:,} tokens is refused"
            if tokens > self._limit:
                yield note("truncation", f"{text} ({error.status}), as it should be.")
            else:
                yield fault("truncation", f"{text}, which the checkpoint reads whole.", error.what)
            return
        yield from self._judge(row, [self.labels.matrix([answer]) for answer in answers])

    def _judge(self, row: Row, scores: list[Tensor]) -> Iterator[CheckFinding]:
        """Yield what the answer to a long row, (1, c) for each series, shows."""
        tokens, limit = self._count_tokens(row), self._limit
        text = f"A text of {tokens:,} tokens"
        (whole,) = self._encoder.with_limit(tokens).encode([row])
        if self._misfit(whole, scores) <= 1:
            if tokens > limit:
                says = f"{text} is read whole; the checkpoint's limit is {limit:,}."
                yield note("truncation", says)
            return
        places, side = self._find_cut(row, tokens, scores)
        if not places:
            says = f"{text} is answered otherwise, and no cut explains it."
            yield fault("truncation", says, "Check how the server reads long texts.")
        elif side == FIRST and limit in places:
            how = "without an error, as its tokenizer can do."
            yield note("truncation", f"{text} is cut to the first {limit:,} {how}")
        else:
            many = " to ".join(f"{place:,}" for place in dict.fromkeys((places[0], places[-1])))
            is_early = places[-1] < min(limit, tokens) - 2
            says = f"{text} is cut without an error: it reads {side} {many} tokens."
            says += f" The checkpoint reads {limit:,}." * is_early
            yield fault("truncation", says, self.server.whole_texts)

    def _find_cut(self, row: Row, tokens: int, scores: list[Tensor]) -> tuple[list[int], str]:
        """Return after how many tokens the row may be cut, and which of them are left."""
        announced = [place for place in (self._limit, self.server.tokens) if 2 < place < tokens]
        tried: dict[int, list[tuple[float, int, str]]] = {}

        def try_cuts(places: Iterable[int]) -> None:
            for place in places:
                if place in tried or not 2 < place < tokens:
                    continue
                interruption.check()
                cuts = self._encoder.iter_cuts(row, place)
                tried[place] = [(self._misfit(cut, scores), place, side) for side, cut in cuts]

        try_cuts((*announced, *range(3, tokens, 1 if tokens <= SCANNED else STEP)))
        if tokens > SCANNED:
            closest = sorted(tried, key=lambda place: min(tried[place]))[:REFINED]
            try_cuts(n for place in closest for n in range(place - STEP, place + STEP + 1))
        cuts = [cut for ways in tried.values() for cut in ways if cut[0] <= 1]
        if not cuts:
            return [], ""
        least, _, side = min(cuts)
        most = max(ALIKE, BETTER * least)
        near = {place for misfit, place, other in cuts if other == side and misfit <= most}
        if not self.verdict.is_half:  # of places alike to the last bit, the announced one
            near = near.intersection(announced) or near
        return sorted(near), side

    def _misfit(self, inputs: Inputs, scores: list[Tensor]) -> float:
        """Return how far an answer is from that to these tokens; 1 is as far as it may be."""
        fit, fitting, variants = self._fit, self._fitting, self._fitting.variants
        variant = replace(fit.variant, inputs=[inputs])
        logits = variants.try_logits(variant)
        if logits is None:  # more tokens than it has places for
            return torch.inf
        expected = fitting.expected(fit, logits)
        misfit = fitting.misfit(expected, scores)
        halved = variants.halved if self.verdict.is_half else None
        if halved is None:
            return misfit / LONGER
        least = misfit / (HALF * self._noise)
        # What more tokens change in half precision matters only between these.
        rounded = halved.try_logits(variant) if 1 < least <= LONGER else None
        if rounded is None:
            return least
        noise = fitting.misfit(expected, fitting.expected(fit, rounded))
        return misfit / (HALF * max(noise, self._noise))

    @cached_property
    def _noise(self) -> float:
        """By how much bfloat16 changes the scores of the probes, in tolerances."""
        return max(1.0, self._fitting.halved_misfit(self._fit))
