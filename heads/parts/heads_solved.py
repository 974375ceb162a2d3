"""The heads that need no gradient descent: their tensors are set to an optimum at once.

Legend: `width` w of the pooled vector, `classes` c; a head maps (n, w) to (n, c).
"""

from torch import nn

from heads.parts import solvers
from heads.parts.blocks import Neighbours, Normalise, Scale, chain
from heads.parts.registry import head


@head(solve=solvers.logistic)
def logistic(width: int, classes: int, *, C: float = 1.0) -> nn.Sequential:
    """Logistic regression: one linear layer, solved to its only optimum.

    Standardises its input while solving and folds that into the layer.

    Source: the linear probe (Alain and Bengio 2016, arXiv 1610.01644); C as in scikit-learn's
        LogisticRegression.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(solve=solvers.ridge)
def ridge(width: int, classes: int, *, alpha: float = 100.0) -> nn.Sequential:
    """Least squares to +1 and −1: one linear layer in closed form.

    Its logits are no log-odds: trust their order, not its probabilities.

    Source: ridge regression (Hoerl and Kennard 1970); scikit-learn's RidgeClassifier, here on
        standardised input.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(solve=solvers.lda)
def lda(width: int, classes: int, *, shrinkage: float = 0.0) -> nn.Sequential:
    """Linear discriminant analysis: a Gaussian a class, all of one shrunk shape, in closed form.

    The option `shrinkage` is how far the shape is drawn towards a ball, up to 1; 0 is as far as
    Ledoit and Wolf's formula asks for. Vectors are standardised first, and the one shape of all
    classes is drawn, where scikit-learn standardises within each class and draws each one's.

    Source: Fisher 1936; Ledoit and Wolf 2004 (A well-conditioned estimator for large-dimensional
        covariance matrices); scikit-learn's LinearDiscriminantAnalysis.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(solve=solvers.centroid)
def centroid(width: int, classes: int) -> nn.Sequential:
    """The nearest class mean: nothing is learned beyond one average a class.

    Source: Rocchio's classifier, in scikit-learn NearestCentroid; prototypical networks (Snell et
        al. 2017, arXiv 1703.05175) tune the vectors for it, here they are frozen.
    """
    return chain(("centroids", nn.Linear(width, classes)))


@head(solve=solvers.cosine, single_label=True)
def cosine(width: int, classes: int, *, scale: float = 20.0) -> nn.Sequential:
    """The class mean with the nearest direction; the logit is {scale} times the cosine.

    Source: imprinted weights (Qi, Brown and Lowe 2018, arXiv 1712.07136): the mean of a class's
        normalised vectors, normalised again, as its weights; their scale is learned, 20 is ours.
    """
    return chain(
        ("normalise", Normalise()),
        ("centroids", nn.Linear(width, classes, bias=False)),
        ("scale", Scale(scale)),
    )


@head(solve=solvers.neighbours, single_label=True)
def knn(width: int, classes: int, *, k: int = 10) -> nn.Sequential:
    """A vote of the {k} most similar training texts.

    Where several classes have the most votes, the most similar text of theirs decides.

    Source: k-nearest neighbours (Cover and Hart 1967), on cosine similarity.
    """
    return chain(("neighbours", Neighbours(width, classes, k)))
