"""Vectors that came from elsewhere as the features of a run: nothing is read."""

from collections.abc import Sequence

import torch

from heads.data.vectors import Vectors
from heads.features.store import FeatureMatrices
from heads.parts.resolved_recipe import ResolvedRecipe

SAYS = "Vectors were given; no base model has read."
ENGINE = "vectors"


def given_features(recipes: Sequence[ResolvedRecipe], vectors: Vectors) -> FeatureMatrices:
    """The vectors of n rows under the readings of recipes: as they are, or at length 1.

    Equal vectors of several rows are held as often as they come.
    """
    matrix, none = vectors.tensor(), torch.zeros(len(vectors), dtype=torch.long)
    parts = {
        one.reading: torch.nn.functional.normalize(matrix, dim=-1) if one.normalise else matrix
        for one in recipes
    }
    return FeatureMatrices(
        index=torch.arange(len(vectors)),
        parts={reading: ({"vectors": found},) for reading, found in parts.items()},
        tokens=none,
        whole=none,
        unknown=none,
        seconds=0.0,
        fresh=0,
        engine=ENGINE,
        precision="float32",
        scored="float32",
        says=SAYS,
    )
