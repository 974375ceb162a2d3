"""Heads that several tests of exports look at."""

from collections.abc import Callable

import pytest
from quick_heads import trained_once as trained  # noqa: F401

from heads.classifier.classifier import Classifier
from heads.exporters.onnx import PACKAGES, OnnxReport, write_onnx


@pytest.fixture(scope="session")
def onnx_file(
    trained: Callable[..., Classifier],  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Classifier, OnnxReport]:
    """A head and the ONNX file that it was written as, once: torch takes seconds for that."""
    for name in PACKAGES:
        pytest.importorskip(name, reason=f"{name} is not installed (pip install -e .[onnx])")
    ours = trained("mean+roberta")
    return ours, write_onnx(ours, tmp_path_factory.mktemp("onnx") / "mine.onnx")
