"""The heads: chains of named layers from the pooled vector up to the logits.

Legend: `width` w of the pooled vector, `classes` c; a head maps (n, w) to (n, c). Its layers
bear the names that they have in the Transformers checkpoint, less the head's `prefix`, so
loading is `load_state_dict` and export is a prefix. Dropout comes with each source's default.
"""

from torch import nn

from heads.parts.blocks import Repeat, activated, chain
from heads.parts.registry import head


@head
def linear(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """Dropout and one linear layer: the head that the BERT paper describes.

    Source: BERT (Devlin et al. 2019), section 4.1, there a matrix without a bias; Transformers'
        XLM and Flaubert.
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


@head
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


@head
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


@head
def gpt2(width: int, classes: int) -> nn.Sequential:
    """One linear layer without a bias, and no dropout.

    Source: Transformers' GPT2ForSequenceClassification, and those of Llama and 61 others like it.
    """
    return chain(("score", nn.Linear(width, classes, bias=False)))


@head(prefix="classifier.")
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


@head
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


@head
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


@head
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


@head
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


@head
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
