"""Vectors that came from elsewhere as the features of a run: nothing is read."""

from collections.abc import Sequence

import torch
from torch.nn.functional import normalize

from heads.data.vectors import Vectors
from heads.features.store import FeatureMatrices
from heads.parts.resolved_recipe import ResolvedRecipe

SAYS = "Vectors were given; no base model has read."
ENGINE = "vectors"


def given_features(recipes: Sequence[ResolvedRecipe], vectors: Vectors) -> FeatureMatrices:
    """The vectors of n rows under the readings of recipes: as they are, or at length 1.

    Equal vectors of several rows are held as often as they come.
    """
    matrix, index = vectors.tensor(), torch.arange(len(vectors))
    readings = {
        recipe.reading: normalize(matrix, dim=-1) if recipe.normalise else matrix
        for recipe in recipes
    }
    return FeatureMatrices.of_vectors(index, readings, engine=ENGINE, says=SAYS)
