"""Environments and scripts of the tools that only studies compare with.

The scripts in peer_scripts/ share `peer.py` with those that `make bench` runs.
"""

from collections.abc import Mapping
from pathlib import Path

from benchmarks import peers
from benchmarks.rounds import Answer, answered
from benchmarks.venvs import TORCH, Environment, environment

FOLDER = Path(__file__).parent / "peer_scripts"
SHARED_FOLDER = Path(peers.__file__).parent / "peer_scripts"  # which has peer.py
ENVIRONMENTS: Mapping[str, tuple[str, ...]] = {
    "cleanlab": ("cleanlab==2.9.0",),
    "autointent": (TORCH, "autointent[sentence-transformers,catboost]==0.4.0"),
    "autogluon": (TORCH, "autogluon.tabular[lightgbm,xgboost,catboost,fastai]==1.6.3"),
    "autogluon-multimodal": (TORCH, "autogluon.multimodal==1.6.3"),
}


def install(name: str) -> Environment:
    """Return the environment of a tool, installed on first use."""
    return environment(name, required=ENVIRONMENTS)


def ask_peer(
    python: Path, script: str, question: Answer, settings: Mapping[str, str] | None = None
) -> Answer:
    """Run a script of peer_scripts/ with a tool's Python and return its answer.

    Args:
        settings: Variables added to its process environment.

    Raises:
        CannotSayError: The script failed.
    """
    settings = {"PYTHONPATH": str(SHARED_FOLDER), **(settings or {})}
    return answered((python, FOLDER / f"{script}.py"), question, settings)
