"""How long a run works."""

import time

from heads.pipeline.runs.folder import RunFolder
from heads.settings import Contest


class Clock:
    """How long a run has worked, over all its resumptions; the time allowed is of each one."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        before = run.read("end.json") or run.read("clock.json") or {"seconds": 0.0}
        self._before = before["seconds"]
        self._begun = time.perf_counter()
        (run.path / "end.json").unlink(missing_ok=True)

    @property
    def seconds(self) -> float:
        """So far."""
        return self._before + time.perf_counter() - self._begun

    def is_over(self, contest: Contest) -> bool:
        """Whether the time allowed is used up; notes on disk how long it has worked."""
        self._run.write("clock.json", {"seconds": self.seconds})
        spent = self.seconds - self._before
        return bool(contest.budget_seconds) and spent > contest.budget_seconds

    def stop(self, state: str) -> None:
        """Notes how it ended."""
        self._run.write("end.json", {"state": state, "seconds": self.seconds})
