"""Texts in, labels out.

    from load import load

    classify = load()  # README.md says what to ask it

Written by Head to Head 0.1.0. It needs torch, transformers and safetensors.
What is read of a text and what the head computes is to be read in heads_69c579c7/parts.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).absolute().parent
if str(FOLDER) not in sys.path:
    sys.path.append(str(FOLDER))

from heads_69c579c7.exporters.standalone import StandaloneClassifier


def load(folder: str | Path = FOLDER) -> StandaloneClassifier:
    """Brings the classifier into memory; the folder is the one of this file if not given."""
    return StandaloneClassifier(Path(folder))
