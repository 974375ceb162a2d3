"""Where each family built of BERT's block keeps the parts of it.

Which families those are is said here; whether a model of one is read rightly is tried on texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Where a family keeps the parts of the block, as paths of modules; "" where it has none."""

    words: str = "embeddings.word_embeddings"
    positions: str = "embeddings.position_embeddings"
    sides: str = "embeddings.token_type_embeddings"
    embedded: str = "embeddings.LayerNorm"
    projected: str = ""
    layers: str = "encoder.layer"
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    joined: str = "attention.output.dense"
    attended: str = "attention.output.LayerNorm"
    wide: str = "intermediate.dense"
    activation: str = "intermediate.intermediate_act_fn"
    narrow: str = "output.dense"
    done: str = "output.LayerNorm"


BERT = Names()
FAMILIES: Mapping[str, Names] = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "camembert", "data2vec-text", "ernie"), BERT
    ),
    "electra": Names(projected="embeddings_project"),
    "mpnet": Names(
        sides="",
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        joined="attention.attn.o",
        attended="attention.LayerNorm",
    ),
    "distilbert": Names(
        sides="",
        layers="transformer.layer",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        joined="attention.out_lin",
        attended="sa_layer_norm",
        wide="ffn.lin1",
        activation="ffn.activation",
        narrow="ffn.lin2",
        done="output_layer_norm",
    ),
    "albert": Names(
        projected="encoder.embedding_hidden_mapping_in",
        layers="encoder.albert_layer_groups",
        query="attention.query",
        key="attention.key",
        value="attention.value",
        joined="attention.dense",
        attended="attention.LayerNorm",
        wide="ffn",
        activation="activation",
        narrow="ffn_output",
        done="full_layer_layer_norm",
    ),
}
