"""The heads: chains of named layers from the pooled vector up to the logits.

Legend: `width` w of the pooled vector, `classes` c; a head maps (n, w) to (n, c). Its layers
bear the names that they have in the Transformers checkpoint, less the head's `prefix`, so
loading is `load_state_dict` and export is a prefix. Dropout comes with each source's default.
"""

from torch import nn

from heads.parts import solvers
from heads.parts.modules import (
    Cuts,
    Directions,
    Neighbours,
    Normalise,
    Repeat,
    Residual,
    Scale,
    activated,
    chain,
)
from heads.parts.registry import head


@head(title="One layer")
def linear(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """One linear layer: the head that the BERT paper describes.

    Dropout comes before it only where it is trained step by step: with fit=adamw, a dropout other
    than the default, tune=, late=true or a pooling that is learned.

    Source: BERT (Devlin et al. 2019), section 4.1, there a matrix without a bias; Transformers'
        XLM and Flaubert.
    """
    return chain(("dropout", nn.Dropout(dropout)), ("classifier", nn.Linear(width, classes)))


@head(title="BERT's head", from_base="pooler")
def bert(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """Dense and tanh, which start as the base model's pooler if it has one; dropout, linear.

    Source: Transformers' BertForSequenceClassification.
    """
    return chain(
        ("pooler.dense", nn.Linear(width, width)),
        ("pooler.activation", nn.Tanh()),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head(title="RoBERTa's head", prefix="classifier.")
def roberta(width: int, classes: int, *, dropout: float = 0.1, hidden: int = 0) -> nn.Sequential:
    """Dropout, dense, tanh, dropout, linear: BERT's pooler moved into the head, not pretrained.

    The option `hidden` is the width of the dense layer: 0, as wide as its input.

    Source: Transformers' RobertaClassificationHead, from fairseq.
    """
    return chain(
        ("drop_in", nn.Dropout(dropout)),
        ("dense", nn.Linear(width, hidden or width)),
        ("tanh", nn.Tanh()),
        ("drop_out", nn.Dropout(dropout)),
        ("out_proj", nn.Linear(hidden or width, classes)),
    )


@head(title="DistilBERT's head")
def distilbert(width: int, classes: int, *, dropout: float = 0.2, hidden: int = 0) -> nn.Sequential:
    """Dense, ReLU, dropout, linear.

    Source: Transformers' DistilBertForSequenceClassification.
    """
    return chain(
        ("pre_classifier", nn.Linear(width, hidden or width)),
        ("relu", nn.ReLU()),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(hidden or width, classes)),
    )


@head(title="XLNet's head")
def xlnet(
    width: int,
    classes: int,
    *,
    activation: str = "tanh",
    dropout: float = 0.1,
    first_dropout: float = 0.0,
    hidden: int = 0,
) -> nn.Sequential:
    """Dense, tanh, dropout, linear: a summary of the last token, all of it new.

    Source: Transformers' XLNetForSequenceClassification.
    """
    return chain(
        ("sequence_summary.first_dropout", nn.Dropout(first_dropout)),
        ("sequence_summary.summary", nn.Linear(width, hidden or width)),
        ("sequence_summary.activation", activated(activation)),
        ("sequence_summary.last_dropout", nn.Dropout(dropout)),
        ("logits_proj", nn.Linear(hidden or width, classes)),
    )


@head(title="GPT-2's head")
def gpt2(width: int, classes: int) -> nn.Sequential:
    """One linear layer without a bias, and no dropout.

    Source: Transformers' GPT2ForSequenceClassification, and those of Llama and 61 others like it.
    """
    return chain(("score", nn.Linear(width, classes, bias=False)))


@head(title="ELECTRA's head", prefix="classifier.")
def electra(
    width: int,
    classes: int,
    *,
    activation: str = "gelu",
    dropout: float = 0.1,
    hidden: int = 0,
) -> nn.Sequential:
    """Dropout, dense, GELU, dropout, linear: RoBERTa's head with another activation.

    Source: Transformers' ElectraClassificationHead.
    """
    return chain(
        ("drop_in", nn.Dropout(dropout)),
        ("dense", nn.Linear(width, hidden or width)),
        ("activation", activated(activation)),
        ("drop_out", nn.Dropout(dropout)),
        ("out_proj", nn.Linear(hidden or width, classes)),
    )


@head(title="DeBERTa's head")
def deberta(
    width: int,
    classes: int,
    *,
    activation: str = "gelu",
    pooler_dropout: float = 0.0,
    dropout: float = 0.1,
    hidden: int = 0,
) -> nn.Sequential:
    """Dense, GELU, dropout, linear: ELECTRA's head whose first dropout is off by default.

    Source: Transformers' DebertaV2ForSequenceClassification and its ContextPooler.
    """
    return chain(
        ("pooler.dropout", nn.Dropout(pooler_dropout)),
        ("pooler.dense", nn.Linear(width, hidden or width)),
        ("pooler.activation", activated(activation)),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(hidden or width, classes)),
    )


@head(title="ModernBERT's head")
def modernbert(
    width: int,
    classes: int,
    *,
    activation: str = "gelu",
    bias: bool = False,
    norm_bias: bool = False,
    out_bias: bool = True,
    dropout: float = 0.0,
    eps: float = 1e-5,
    hidden: int = 0,
) -> nn.Sequential:
    """Dense without bias, GELU, layer norm, linear; dropout is off by default.

    Source: Transformers' ModernBertForSequenceClassification and ModernBertPredictionHead.
    """
    return chain(
        ("head.dense", nn.Linear(width, hidden or width, bias=bias)),
        ("head.act", activated(activation)),
        ("head.norm", nn.LayerNorm(hidden or width, eps=eps, bias=norm_bias)),
        ("drop", nn.Dropout(dropout)),
        ("classifier", nn.Linear(hidden or width, classes, bias=out_bias)),
    )


@head(title="EuroBERT's head")
def eurobert(width: int, classes: int, *, dropout: float = 0.0, hidden: int = 0) -> nn.Sequential:
    """Dense, GELU, linear, without any dropout.

    EuroBERT's default applies it to every token and averages the logits: mean+eurobert?late=true.
    Without that option, as in its `bos` and `mean` modes, it stands behind the pooling.

    Source: Transformers' EuroBertForSequenceClassification.
    """
    return chain(
        ("dense", nn.Linear(width, hidden or width)),
        ("activation", nn.GELU()),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(hidden or width, classes)),
    )


@head(title="Two layers")
def mlp(
    width: int, classes: int, *, hidden: int = 256, activation: str = "relu", dropout: float = 0.1
) -> nn.Sequential:
    """Linear to a hidden layer, activation, linear: for wide inputs such as cls@cat4 as well.

    The hidden width is the option `hidden` (256), the activation `gelu`, `relu` or `tanh`.

    Source: the multilayer perceptron (Rumelhart et al. 1986), asked for in the forum threads on
        four concatenated layers under a small network.
    """
    return chain(
        ("hidden", nn.Linear(width, hidden)),
        ("activation", activated(activation)),
        ("dropout", nn.Dropout(dropout)),
        ("output", nn.Linear(hidden, classes)),
    )


@head(title="Multi-sample dropout")
def multi_sample_dropout(
    width: int, classes: int, *, dropout: float = 0.5, samples: int = 5
) -> nn.Sequential:
    """Dropout and linear, with the loss averaged over {samples} dropout masks at each step.

    Once trained it is the same function as `linear`.

    Source: Multi-Sample Dropout (Inoue 2019, arXiv 1905.09788), there trained with the network.
    """
    return chain(
        ("repeat", Repeat(samples)),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


# --- Heads by which others are understood: without an activation, with a norm, past a network.


@head(title="Dense layer, then linear", prefix="classifier.")
def dense_linear(
    width: int, classes: int, *, dropout: float = 0.1, hidden: int = 0
) -> nn.Sequential:
    """Dropout, dense, dropout, linear: RoBERTa's head without its tanh.

    The control for dense heads: it can compute nothing that one linear layer could not, so what
    it gains is of how it learns, and what RoBERTa's head gains on it is the tanh. Other heads have
    the option activation=none for it.

    Source: deep linear networks (Saxe et al. 2014, arXiv 1312.6120), which are linear maps that
        learn in another way.
    """
    return chain(
        ("drop_in", nn.Dropout(dropout)),
        ("dense", nn.Linear(width, hidden or width)),
        ("drop_out", nn.Dropout(dropout)),
        ("out_proj", nn.Linear(hidden or width, classes)),
    )


@head(title="Layer norm, then linear")
def norm_linear(
    width: int, classes: int, *, dropout: float = 0.0, eps: float = 1e-5
) -> nn.Sequential:
    """Layer norm, then one linear layer: each text's vector gets mean 0 and deviation 1.

    The other norm before a linear layer, MAE's batch norm without parameters, looks along the
    rows and not along a text's vector: it is the option standardise=true of other heads, and is
    folded into their first layer.

    Source: Vision Transformer (Dosovitskiy et al. 2021), equation 4, and its linear head.
    """
    return chain(
        ("norm", nn.LayerNorm(width, eps=eps)),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head(title="Residual block")
def residual(width: int, classes: int, *, hidden: int = 256, dropout: float = 0.1) -> nn.Sequential:
    """The vector plus a small network of it, then dropout and linear.

    What a linear layer knows passes by the network, which need only learn what is missing. Its
    hidden width is the option `hidden` (256).

    Source: residual learning (He et al. 2016), equation 1; as a block without its batch norm the
        ResNet for tables of Gorishniy et al. 2021 (arXiv 2106.11959), section 3.2.
    """
    return chain(
        ("residual", Residual(width, hidden)),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head(title="Cosine with a margin", single_label=True, margined=True, ranges={"margin": (0, 1)})
def cosine_margin(
    width: int, classes: int, *, scale: float = 20.0, margin: float = 0.2
) -> nn.Sequential:
    """Learned directions, {scale} times the cosine to each, and a margin of {margin} in training.

    While it learns, the cosine to a text's own class counts {margin} less; in use it does not.

    Source: CosFace (Wang et al. 2018, arXiv 1801.09414), equation 4, whose scale is 64 for faces.
    """
    return chain(
        ("normalise", Normalise()),
        ("directions", Directions(width, classes)),
        ("scale", Scale(scale)),
    )


@head(title="Ordered thresholds", single_label=True, ordered=True)
def proportional_odds(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """For classes in an order: one learned number, cut into them by ordered thresholds.

    Its logits are the logarithms of its probabilities, P(≤ k) = sigmoid(θₖ − f).

    Source: the proportional odds model (McCullagh 1980); one projection for all thresholds as in
        CORAL (Cao et al. 2020, arXiv 1901.07884), here under the likelihood of the true class.
    """
    return chain(
        ("dropout", nn.Dropout(dropout)),
        ("projection", nn.Linear(width, 1)),
        ("thresholds", Cuts(classes)),
    )


# --- The heads that need no gradient descent: their tensors are set to an optimum at once.


@head(title="Logistic regression", convex=True)
def logistic(width: int, classes: int, *, C: float = 1.0) -> nn.Sequential:
    """Logistic regression: one linear layer, solved to its only optimum.

    Standardises its input while solving and folds that into the layer.

    Source: the linear probe (Alain and Bengio 2016, arXiv 1610.01644); C as in scikit-learn's
        LogisticRegression.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(
    title="Ridge regression",
    solve=solvers.ridge,
    regression=True,
    search={"alpha": tuple(float(f"{10 ** (power / 2):.2g}") for power in range(-6, 13))},
)
def ridge(width: int, classes: int, *, alpha: float = 100.0) -> nn.Sequential:
    """Least squares to +1 and −1: one linear layer in closed form.

    Its logits are no log-odds: trust their order, not its probabilities.

    Source: ridge regression (Hoerl and Kennard 1970); scikit-learn's RidgeClassifier, here on
        standardised input.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(
    title="Discriminant analysis",
    solve=solvers.lda,
    ranges={"shrinkage": (0, 1)},
    # 0 is the share that Ledoit and Wolf's formula gives.
    search={
        "shrinkage": (0, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1)
    },
)
def lda(width: int, classes: int, *, shrinkage: float = 0.0) -> nn.Sequential:
    """Linear discriminant analysis: a Gaussian a class, all of one shrunk shape, in closed form.

    The option `shrinkage` is how far the shape is drawn towards a ball, up to 1; 0 is as far as
    Ledoit and Wolf's formula asks for. Vectors are standardised first, and the one shape of all
    classes is drawn, where scikit-learn standardises within each class and draws each one's.

    Source: Fisher 1936; Ledoit and Wolf 2004 (A well-conditioned estimator for large-dimensional
        covariance matrices); scikit-learn's LinearDiscriminantAnalysis.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(title="Nearest class mean", solve=solvers.centroid)
def centroid(width: int, classes: int) -> nn.Sequential:
    """The nearest class mean: nothing is learned beyond one average a class.

    Source: Rocchio's classifier, in scikit-learn NearestCentroid; prototypical networks (Snell et
        al. 2017, arXiv 1703.05175) tune the vectors for it, here they are frozen.
    """
    return chain(("centroids", nn.Linear(width, classes)))


@head(
    title="Cosine to class means",
    solve=solvers.cosine,
    single_label=True,
    search={"scale": (1.25, 2.5, 5, 10, 20, 40, 80, 160, 320)},
)
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


@head(
    title="Nearest neighbours",
    solve=solvers.neighbours,
    single_label=True,
    search={"k": (1, 3, 10, 30, 100)},
)
def knn(width: int, classes: int, *, k: int = 10) -> nn.Sequential:
    """A vote of the {k} most similar training texts.

    Where several classes have the most votes, the most similar text of theirs decides.

    Source: k-nearest neighbours (Cover and Hart 1967), on cosine similarity.
    """
    return chain(("neighbours", Neighbours(width, classes, k)))
