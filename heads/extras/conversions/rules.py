"""The bundled model under other families' classes, as data: one function, several native heads.

Many families of Transformers compute BERT's function under other names, or do so once a table has a
row more or a matrix is the identity. The head that a family brings along is then the only
difference. `heads/extras/conversions/conversion.py` writes them.

`difference` was measured on the states of real tokens, alone and in padded batches, against
BertModel with the same attention routine; those with one divide by √32 where BERT multiplies by its
inverse. RoBERTa and its kin count no position for "[PAD]" where a tokenizer reads it as padding.

Other families would show no other head (X-MOD, RoCBert, RemBERT, BigBird, FlauBERT, SqueezeBERT),
want more than a text (LUKE, TAPAS, the LayoutLMs, LiLT), or cannot compute what BERT does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from heads import plugins
from heads.backbone.models import BUNDLED

Renames = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """The bundled model as another family's class, as data."""

    family: str  # the model_type of Transformers
    name: str  # the family's name as people write it
    done: str  # the changes to the weights, for the user
    # values of its config that are not the bundled model's
    settings: Mapping[str, Any] = field(default_factory=dict)
    # BERT's names of modules and this family's; * stands for the layer's number
    renames: Renames = ()
    pooled: bool = False  # whether it has a place for the bundled model's pooler
    rows: int = 0  # empty rows put before the position embeddings
    # whether it has segment embeddings; if not, the first is added to the words
    segments: bool = True
    # tensors that BERT lacks, by their beginning, and what they are filled with
    new: Mapping[str, Literal["zeros", "identity"]] = field(default_factory=dict)
    # the most by which a real token's last state differs; 0.0: not by one bit
    difference: float = 0.0

    @property
    def title(self) -> str:
        """The name on the page."""
        return f"{BUNDLED} as {self.name}"

    @property
    def says(self) -> str:
        """One sentence for the user: what was done, and how exact it is."""
        exact = "the states are the same to the last bit"
        if self.difference:
            exact = f"the states are the same to {self.difference:.5f}, which is rounding"
        texts = "" if self.segments else ", for single texts (it has no segments for pairs)"
        return f"{self.done}; {exact}{texts}."


def _layers(prefix: str, names: str) -> Renames:
    """Pair each module of a BERT layer with another family's name for it, in this order."""
    ours = (
        "attention.self.query attention.self.key attention.self.value attention.output.dense "
        "attention.output.LayerNorm intermediate.dense output.dense output.LayerNorm"
    )
    pairs = zip(ours.split(), names.split(), strict=True)
    return tuple((f"encoder.layer.*.{our}", prefix + their) for our, their in pairs)


_ROBERTA = Conversion(
    family="roberta",
    name="RoBERTa",
    done="An empty row put before the position embeddings, since these are counted from pad + 1",
    settings={"max_position_embeddings": 513},
    rows=1,
)
_ROWS = (
    _ROBERTA,
    Conversion(
        family="distilbert",
        name="DistilBERT",
        done="Tensors renamed, and the first segment's embedding added to the words'",
        settings={"hidden_dim": 1536},
        renames=_layers(
            "transformer.layer.*.",
            "attention.q_lin attention.k_lin attention.v_lin attention.out_lin sa_layer_norm "
            "ffn.lin1 ffn.lin2 output_layer_norm",
        ),
        segments=False,
    ),
    Conversion(
        family="electra",
        name="ELECTRA",
        done="As it is, but for the pooler that ELECTRA does not have",
        settings={"embedding_size": 384},
    ),
    Conversion(
        family="deberta-v2",
        name="DeBERTa-v2",
        done="Tensors renamed, with relative attention off and absolute positions on",
        settings={"relative_attention": False, "position_biased_input": True},
        renames=_layers(
            "encoder.layer.*.",
            "attention.self.query_proj attention.self.key_proj attention.self.value_proj "
            "attention.output.dense attention.output.LayerNorm "
            "intermediate.dense output.dense output.LayerNorm",
        ),
        difference=1e-5,
    ),
    Conversion(
        family="mpnet",
        name="MPNet",
        done="Tensors renamed, two empty rows before the position embeddings, relative bias 0, "
        "and the first segment's embedding added to the words'",
        settings={"max_position_embeddings": 514},
        renames=_layers(
            "encoder.layer.*.",
            "attention.attn.q attention.attn.k attention.attn.v attention.attn.o "
            "attention.LayerNorm intermediate.dense output.dense output.LayerNorm",
        ),
        rows=2,
        segments=False,
        new={"encoder.relative_attention_bias": "zeros"},
        difference=1e-5,
    ),
    Conversion(
        family="albert",
        name="ALBERT",
        done="Tensors renamed, a group for each layer so that none is shared, and the identity "
        "between embeddings and layers",
        settings={"embedding_size": 384, "num_hidden_groups": 6},
        renames=(
            *_layers(
                "encoder.albert_layer_groups.*.albert_layers.0.",
                "attention.query attention.key attention.value attention.dense "
                "attention.LayerNorm ffn ffn_output full_layer_layer_norm",
            ),
            ("pooler.dense", "pooler"),
        ),
        pooled=True,
        new={
            "encoder.embedding_hidden_mapping_in.weight": "identity",
            "encoder.embedding_hidden_mapping_in.bias": "zeros",
        },
    ),
    Conversion(
        family="xlm",
        name="XLM",
        done="Tensors renamed, language embeddings off, and the first segment's embedding added "
        "to the words'",
        settings={"use_lang_emb": False, "unk_index": 100, "mask_index": 103},
        renames=(
            *_layers(
                "",
                "attentions.*.q_lin attentions.*.k_lin attentions.*.v_lin attentions.*.out_lin "
                "layer_norm1.* ffns.*.lin1 ffns.*.lin2 layer_norm2.*",
            ),
            ("embeddings.word_embeddings", "embeddings"),
            ("embeddings.position_embeddings", "position_embeddings"),
            ("embeddings.LayerNorm", "layer_norm_emb"),
        ),
        segments=False,
        difference=1e-5,
    ),
    Conversion(
        family="ernie", name="ERNIE", done="As it is, without ERNIE's task embeddings", pooled=True
    ),
    replace(_ROBERTA, family="xlm-roberta", name="XLM-RoBERTa"),
    replace(_ROBERTA, family="camembert", name="CamemBERT"),
    replace(_ROBERTA, family="data2vec-text", name="Data2Vec-text"),
)
CONVERSIONS: Mapping[str, Conversion] = {rules.family: rules for rules in _ROWS}


def converted_id(family: str) -> str:
    """Return the name of a conversion, as a user writes it.

    >>> converted_id("roberta")
    'all-MiniLM-L6-v2-as-roberta'
    """
    return f"{BUNDLED}-as-{family}"


class ConvertedModels:
    """The bundled model under the classes of other families."""

    def find(self, name: str) -> tuple[str, Path]:
        """Return the id of a converted model and its folder, or raise ModelError."""
        make = plugins.load("heads.extras.conversions.conversion:converted_folder")
        family = name.strip().lower().removeprefix(converted_id("").lower()).strip()
        return converted_id(family), make(family)

    def choices(self) -> list[tuple[str, str]]:
        """Return titles and ids of all conversions."""
        return [(rules.title, converted_id(family)) for family, rules in CONVERSIONS.items()]


SOURCE = ConvertedModels()
