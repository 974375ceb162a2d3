"""The heads: chains of named layers from the pooled vector up to the logits.

Legend: `width` w of the pooled vector, `classes` c; a head maps (n, w) to (n, c). Its layers
bear the names that they have in the Transformers checkpoint, less the head's `prefix`, so
loading is `load_state_dict` and export is a prefix. Dropout comes with each source's default.
"""

from torch import nn

from heads.errors import RecipeError, did_you_mean
from heads.parts import solvers
from heads.parts.blocks import Neighbours, Normalise, Repeat, Scale, chain
from heads.parts.registry import head

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}


@head
def linear(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """Dropout and one linear layer: the head that the BERT paper describes.

    Source: BERT (Devlin et al. 2019), section 4.1; Transformers' XLM and Flaubert.
    """
    return chain(("dropout", nn.Dropout(dropout)), ("classifier", nn.Linear(width, classes)))


@head(from_base="pooler")
def bert(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """Dense and tanh, pretrained where the base model has a pooler, then dropout and linear.

    Source: Transformers' BertForSequenceClassification; the pooler was trained by BERT's
        next-sentence objective.
    """
    return chain(
        ("pooler.dense", nn.Linear(width, width)),
        ("pooler.activation", nn.Tanh()),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head(prefix="classifier.")
def roberta(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """Dropout, dense, tanh, dropout, linear: BERT's pooler moved into the head, not pretrained.

    Source: Transformers' RobertaClassificationHead, from fairseq.
    """
    return chain(
        ("drop_in", nn.Dropout(dropout)),
        ("dense", nn.Linear(width, width)),
        ("tanh", nn.Tanh()),
        ("drop_out", nn.Dropout(dropout)),
        ("out_proj", nn.Linear(width, classes)),
    )


@head
def distilbert(width: int, classes: int, *, dropout: float = 0.2) -> nn.Sequential:
    """Dense, ReLU, dropout, linear.

    Source: Transformers' DistilBertForSequenceClassification.
    """
    return chain(
        ("pre_classifier", nn.Linear(width, width)),
        ("relu", nn.ReLU()),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head
def xlnet(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """Dense, tanh, dropout, linear: a summary of the last token, all of it new.

    Source: Transformers' XLNetForSequenceClassification.
    """
    return chain(
        ("sequence_summary.summary", nn.Linear(width, width)),
        ("sequence_summary.activation", nn.Tanh()),
        ("sequence_summary.last_dropout", nn.Dropout(dropout)),
        ("logits_proj", nn.Linear(width, classes)),
    )


@head
def gpt2(width: int, classes: int) -> nn.Sequential:
    """One linear layer without a bias, and no dropout.

    Source: Transformers' GPT2ForSequenceClassification, and Llama's and 60 others' like it.
    """
    return chain(("score", nn.Linear(width, classes, bias=False)))


@head(prefix="classifier.")
def electra(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """Dropout, dense, GELU, dropout, linear: RoBERTa's head with another activation.

    Source: Transformers' ElectraClassificationHead.
    """
    return chain(
        ("drop_in", nn.Dropout(dropout)),
        ("dense", nn.Linear(width, width)),
        ("activation", nn.GELU()),
        ("drop_out", nn.Dropout(dropout)),
        ("out_proj", nn.Linear(width, classes)),
    )


@head
def deberta(
    width: int, classes: int, *, pooler_dropout: float = 0.0, dropout: float = 0.1
) -> nn.Sequential:
    """Dense, GELU, dropout, linear: ELECTRA's head whose first dropout is off by default.

    Source: Transformers' DebertaV2ForSequenceClassification and its ContextPooler.
    """
    return chain(
        ("pooler.dropout", nn.Dropout(pooler_dropout)),
        ("pooler.dense", nn.Linear(width, width)),
        ("pooler.activation", nn.GELU()),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head
def modernbert(width: int, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Dense without bias, GELU, layer norm, linear; dropout is off by default.

    Source: Transformers' ModernBertForSequenceClassification and ModernBertPredictionHead.
    """
    return chain(
        ("head.dense", nn.Linear(width, width, bias=False)),
        ("head.act", nn.GELU()),
        ("head.norm", nn.LayerNorm(width, eps=1e-5, bias=False)),
        ("drop", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head
def eurobert(width: int, classes: int) -> nn.Sequential:
    """Dense, GELU, linear, without any dropout.

    EuroBERT's default applies it to every token and averages the logits; here, as in its
    `bos` and `mean` modes, it stands behind the pooling.

    Source: Transformers' EuroBertForSequenceClassification.
    """
    return chain(
        ("dense", nn.Linear(width, width)),
        ("activation", nn.GELU()),
        ("classifier", nn.Linear(width, classes)),
    )


@head
def mlp(
    width: int, classes: int, *, hidden: int = 256, activation: str = "relu", dropout: float = 0.1
) -> nn.Sequential:
    """Linear to a hidden layer, activation, linear: made for wide inputs such as cls@cat4.

    The hidden width is the option `hidden` (256), the activation `gelu`, `relu` or `tanh`.

    Source: the forum threads on four concatenated layers under a small network.
    """
    if activation not in ACTIVATIONS:
        what = f"There is no activation called '{activation}'."
        raise RecipeError(what, did_you_mean(activation, ACTIVATIONS))
    return chain(
        ("hidden", nn.Linear(width, hidden)),
        ("activation", ACTIVATIONS[activation]()),
        ("dropout", nn.Dropout(dropout)),
        ("output", nn.Linear(hidden, classes)),
    )


@head
def multi_sample_dropout(
    width: int, classes: int, *, dropout: float = 0.5, samples: int = 5
) -> nn.Sequential:
    """Dropout and linear, with the loss averaged over {samples} dropout masks at each step.

    Once trained it is the same function as `linear`.

    Source: Multi-Sample Dropout (Inoue 2019, arXiv 1905.09788).
    """
    return chain(
        ("repeat", Repeat(samples)),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head(solve=solvers.logistic)
def logistic(width: int, classes: int, *, C: float = 1.0) -> nn.Sequential:
    """Logistic regression: one linear layer, solved to its only optimum.

    Standardises its input while solving and folds that into the layer.

    Source: the linear probe (Alain and Bengio 2016); C as in scikit-learn.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(solve=solvers.ridge)
def ridge(width: int, classes: int, *, alpha: float = 100.0) -> nn.Sequential:
    """Least squares to +1 and −1: one linear layer in closed form.

    Its logits are no log-odds: trust their order, not its probabilities.

    Source: ridge regression (Hoerl and Kennard 1970); scikit-learn's RidgeClassifier.
    """
    return chain(("classifier", nn.Linear(width, classes)))


@head(solve=solvers.centroid)
def centroid(width: int, classes: int) -> nn.Sequential:
    """The nearest class mean: nothing is learned beyond one average a class.

    Source: Rocchio's classifier; prototypical networks (Snell et al. 2017).
    """
    return chain(("centroids", nn.Linear(width, classes)))


@head(solve=solvers.cosine, single_label=True)
def cosine(width: int, classes: int, *, scale: float = 20.0) -> nn.Sequential:
    """The class mean with the nearest direction; the logit is {scale} times the cosine.

    Source: A Closer Look at Few-shot Classification (Chen et al. 2019), by means.
    """
    return chain(
        ("normalise", Normalise()),
        ("centroids", nn.Linear(width, classes, bias=False)),
        ("scale", Scale(scale)),
    )


@head(solve=solvers.neighbours, single_label=True)
def knn(width: int, classes: int, *, k: int = 10) -> nn.Sequential:
    """A vote of the {k} most similar training texts.

    Source: k-nearest neighbours (Cover and Hart 1967), on cosine similarity.
    """
    return chain(("neighbours", Neighbours(width, classes, k)))
