"""Which runs a visitor may see, which are his own, and how the page names them.

In public mode a run's id is the hash of a secret that only the browser keeps which began it. Who
has the id, as it stands in links, sees the run; who has the secret may stop, resume and delete it.
Nothing on the server says whose a run is, so it stays its owner's after a restart too.
"""

import base64
import contextlib
import hashlib
import re
import secrets
import time
from typing import TYPE_CHECKING, Any

from heads.errors import HeadsError, LimitError
from heads.evaluation.metrics import SCORES
from heads.runs.folder import RunFolder, all_runs, named
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.runs.leaderboard import Leaderboard

MOST = 100
MOST_MINE = 30  # runs that a browser remembers
SECRET = re.compile(r"[A-Za-z0-9_-]{22}")  # shorter than any id of public mode
LONGEST = 100  # letters of what a browser remembers of a run


# --- Whose a run is.


def new_secret() -> str:
    """Return what the browser that begins a run shall keep to itself: no link or log holds it."""
    return secrets.token_urlsafe(16)


def run_of(secret: str) -> str:
    """Return the id of the run that belongs to a secret, which cannot be found from it."""
    digest = hashlib.sha256(b"run of " + secret.encode()).digest()
    return "r" + base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


def remembered(mine: Any) -> list[str]:
    """List what the browser remembers, which anybody may have written there: secrets, or ids."""
    known = mine if isinstance(mine, list) else []
    return [one for one in known if isinstance(one, str) and len(one) < LONGEST][:MOST_MINE]


def _named(one: str) -> str:
    """Return the id of a run that a browser remembers by its secret, or by its id."""
    return run_of(one) if SECRET.fullmatch(one) else one


def in_front(mine: Any, run: str) -> list[str]:
    """List what the browser remembers, the run first."""
    return sorted(remembered(mine), key=lambda one: _named(one) != run)


def without(mine: Any, run: str) -> list[str]:
    """List what the browser remembers, but for the run."""
    return [one for one in remembered(mine) if _named(one) != run]


def owns(run: str, mine: Any) -> bool:
    """Whether a run is the visitor's own: on this machine all are; in public mode, by its secret.

    The id alone, which a browser of before remembers, gives no right.
    """
    return not current_limits().public or any(
        one != run and _named(one) == run for one in remembered(mine)
    )


def owned(run: Any, mine: Any, act: str) -> RunFolder:
    """Return a run that its owner may `act` on (stop, resume, delete), or raise HeadsError."""
    found = opened(run)
    if not owns(found.id, mine):
        raise LimitError(f"Only the browser that began this run may {act} it.")
    return found


# --- Which are seen.


def visible(mine: Any) -> list[RunFolder]:
    """List the runs of this machine; in public mode those alone that the browser remembers."""
    if not current_limits().public:
        return all_runs()[:MOST]
    found = []
    for name in dict.fromkeys(map(_named, remembered(mine))):
        with contextlib.suppress(HeadsError):
            found.append(opened(name))
    return found


def opened(name: Any) -> RunFolder:
    """Return the run of a whole id, which nobody can guess; raise DataError if there is none."""
    return named(name if isinstance(name, str) else "", is_public=current_limits().public)


def board_of(run: str) -> "Leaderboard":
    """Return the leaderboard of a run; raise DataError if there is none."""
    from heads.runs.leaderboard import leaderboard

    return leaderboard(opened(run))


def choices(mine: Any) -> list[tuple[str, str]]:
    """List what stands in the menu of runs, and the id of each; the newest first."""
    from heads.runs.leaderboard import facts_of

    found = []
    for run in visible(mine):
        with contextlib.suppress(HeadsError):
            facts = facts_of(run)
            when = time.strftime("%d %b %H:%M:%S", time.localtime(facts["created"]))
            model, score = facts["model"].rsplit("/", 1)[-1], facts["recommended_score"]
            told = facts["state"] if score is None else SCORES[facts["metric"]].told(score)
            found.append((f"{facts['data']}, {model}, {when}, {told}", run.id))
    return found


def title_of(run: str) -> str:
    """Return what the data of a run are called."""
    return str((opened(run).read("run.json") or {}).get("data", "")) or run


def has_pairs(run: str) -> bool:
    """Return True if the rows of a run hold two texts."""
    from heads.runs.spec import load

    return bool(load(opened(run)).corpus.pairs)


def model_of(run: str) -> str:
    """Return the base model of a run."""
    return str((opened(run).read("run.json") or {}).get("model", ""))


def heads_of(run: str) -> list[str]:
    """List the heads of a run, the best first; raise DataError if it is gone or broken."""
    from heads.runs.spec import load
    from heads.runs.trained_heads import trained_names

    found = opened(run)
    return trained_names(found, load(found))
