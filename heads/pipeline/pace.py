"""How far a pass over many texts is, how fast it goes and how long it will take."""

from collections.abc import Sequence

from heads.events import Progress


class Pace:
    """How far a pass is, how fast it goes and how long it will take, in characters."""

    def __init__(self, says: str, rows: Sequence[tuple[str, str]]) -> None:
        self.says = says
        self.left = sum(map(characters, rows))  # still to be read, or to be found on disk
        self.done = 0
        self.texts = 0
        self.seconds = 0.0

    def skip(self, rows: Sequence[tuple[str, str]]) -> None:
        """Some rows were found on disk."""
        self.left -= sum(map(characters, rows))

    def step(self, rows: Sequence[tuple[str, str]], seconds: float) -> Progress:
        """Some rows have been read in that time."""
        read = sum(map(characters, rows))
        self.left, self.done = self.left - read, self.done + read
        self.texts, self.seconds = self.texts + len(rows), self.seconds + seconds
        rate = self.texts / self.seconds
        left = self.left * self.seconds / self.done
        share = self.done / (self.done + self.left)
        return Progress(says=f"{self.says}: {rate:,.0f} a second, {left:,.0f} s left", share=share)


def characters(row: tuple[str, str]) -> int:
    """How long a text, or two, takes to read, by a yardstick of no unit."""
    return len(row[0]) + len(row[1]) + 8  # the tokens around a text take time as well
