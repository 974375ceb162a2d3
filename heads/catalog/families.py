"""The classification heads of Transformers: each XForSequenceClassification as a recipe of ours.

There is a class for every family, but only seventeen forms among them.
Source: the modeling files of Transformers 5.23, read family by family; `heads families --check`
holds every row to the class of the installed version.
"""

from collections.abc import Mapping
from dataclasses import replace

from heads.catalog.forms import Form, Keys, Side
from heads.errors import RecipeError, did_you_mean

BOTH: tuple[Side, ...] = ("right", "left")
DROPOUT: Keys = ("classifier_dropout", "hidden_dropout_prob")


def _families(text: str) -> Keys:
    return tuple(text.split())


_SUMMARY = {"summary_use_proj": True, "summary_proj_to_labels": True, "summary_activation": None}
_LIKE_MODERNBERT: Mapping[str, Keys] = {
    "activation": ("classifier_activation",),
    "bias": ("classifier_bias",),
    "norm_bias": ("norm_bias",),
    "eps": ("norm_eps",),
    "dropout": ("classifier_dropout",),
}
_LAST = Form(
    name="F1",
    says="The last token that is not padding, and one linear layer without a bias.",
    recipe="last+gpt2",
    sides=BOTH,
    late=True,
    families=_families(
        "arcee axk1 axk2 deepseek_v2 deepseek_v3 diffllama doge exaone4 gemma gemma2 gemma3_text "
        "glm glm4 gpt_oss helium hunyuan_v1_dense hunyuan_v1_moe jamba jetmoe llama minicpm3 "
        "minimax ministral ministral3 mistral mistral4 mixtral nemotron olmo olmo2 olmo3 "
        "persimmon phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_5_text qwen3_moe qwen3_next "
        "seed_oss smollm3 stablelm starcoder2 gemma3 qwen3_5 biogpt bloom falcon gpt-sw3 "
        "gpt2 gpt_bigcode gpt_neo gpt_neox gptj mpt openai-gpt opt zamba zamba2"
    ),
)
_POOLER = Form(
    name="F2",
    says="The base model's pooler (first token, dense, tanh), then dropout and linear.",
    recipe="cls+bert",
    options={"dropout": DROPOUT},
    names={"pooler.dense.": "{base}.pooler.dense."},
    families=_families("bert ernie gte luke markuplm nomic_bert roc_bert"),
)
_ONLY_HIDDEN = {"dropout": ("hidden_dropout_prob",)}
_ROBERTA = Form(
    name="F3",
    says="The first token, then dropout, dense, tanh, dropout, linear.",
    recipe="cls+roberta",
    options={"dropout": DROPOUT},
    families=_families(
        "camembert data2vec-text jina_embeddings_v3 layoutlmv3 lilt roberta "
        "roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod"
    ),
)
_REFORMER = {"dropout": DROPOUT, "hidden": ("hidden_size",)}
_ELECTRA = Form(
    name="F4",
    says="The first token, then dropout, dense, GELU or another activation, dropout, linear.",
    recipe="cls+electra",
    options={"dropout": DROPOUT, "activation": ("hidden_act",)},
    families=("big_bird", "convbert"),
)
_BART = Form(
    name="F5",
    says="The decoder's state at the last end-of-text token, then RoBERTa's layers.",
    recipe="eos@decoder+roberta",
    options={"dropout": ("classifier_dropout",)},
    sides=BOTH,
    names={"": "classification_head."},
    families=_families("bart bigbird_pegasus mbart mvp plbart t5 mt5 umt5"),
)
_XLNET = Form(
    name="F9",
    says="The last place of the batch, padding or not, then dense, tanh, dropout, linear.",
    choice="summary_type",
    recipes={"last": "last+xlnet", "first": "cls+xlnet"},
    needs={"summary_use_proj": True},
    sides=("left",),
    options={
        "activation": ("summary_activation",),
        "dropout": ("summary_last_dropout",),
        "first_dropout": ("summary_first_dropout",),
    },
    families=("xlnet",),
)
_MODERNBERT = Form(
    name="F12",
    says="The first token or the average, then dense, GELU, layer norm, dropout, linear.",
    choice="classifier_pooling",
    recipes={"cls": "cls+modernbert", "mean": "mean+modernbert"},
    options=_LIKE_MODERNBERT,
    families=("modernbert", "modernvbert"),
)
_T5GEMMA = Form(
    name="F15",
    says="The last state of the decoder, one place behind the text, then dropout and linear.",
    choice="is_encoder_decoder",
    recipes={True: "last@decoder+linear"},
    options={"dropout": ("classifier_dropout_rate",)},
    names={"classifier.": "score.out_proj."},
    sides=BOTH,
    late=True,
    shifted=True,
    families=("t5gemma", "t5gemma2"),
)

# In the order of HEADS: a form, and after it those that differ from it in a config key or a name.
FORMS: tuple[Form, ...] = (
    _LAST,
    replace(_LAST, families=("ctrl",), names={"score.": "classifier."}),
    replace(
        _LAST,
        families=("cohere_compass_text",),
        choice="pooling",
        recipes={None: "last+gpt2", "eos": "last+gpt2", "bos": "cls+gpt2", "mean": "mean+gpt2"},
    ),
    _POOLER,
    replace(
        _POOLER,
        options=_ONLY_HIDDEN,
        families=_families("fnet layoutlm megatron-bert squeezebert tapas"),
    ),
    replace(
        _POOLER,
        families=("albert",),
        options={"dropout": ("classifier_dropout_prob",)},
        names={"pooler.dense.": "{base}.pooler."},
    ),
    replace(_POOLER, families=("rembert",), options={"dropout": ("classifier_dropout_prob",)}),
    replace(
        _POOLER,
        families=("mobilebert",),
        choice="classifier_activation",
        recipes={True: "cls+bert", False: "cls+linear"},
    ),
    replace(
        _POOLER,
        says="The base model's pooler, which reads a shortened sequence; then dropout and linear.",
        recipe="pooler+linear",
        options=_ONLY_HIDDEN,
        names={},
        families=("canine",),
    ),
    _ROBERTA,
    replace(_ROBERTA, options=_ONLY_HIDDEN, families=("esm", "ibert", "longformer", "mpnet")),
    replace(_ROBERTA, options={"dropout": ("classifier_dropout",)}, families=("esmc",)),
    replace(_ROBERTA, options=_REFORMER, families=("reformer",)),
    replace(_ELECTRA, options={"dropout": DROPOUT}, families=("electra",)),
    _ELECTRA,
    replace(
        _ELECTRA,
        options={"dropout": ("hidden_dropout_prob",), "activation": ("hidden_act",)},
        families=_families("mra nystromformer roformer yoso"),
    ),
    _BART,
    Form(
        name="F6",
        says="The first token, then dropout, dense, GELU, another dropout, linear.",
        recipe="cls+deberta",
        options={
            "activation": ("pooler_hidden_act",),
            "pooler_dropout": ("pooler_dropout",),
            "dropout": ("cls_dropout", "hidden_dropout_prob"),
        },
        families=("deberta", "deberta-v2"),
    ),
    Form(
        name="F7",
        says="The first token, then dense, ReLU, dropout, linear.",
        recipe="cls+distilbert",
        options={"dropout": ("seq_classif_dropout",)},
        families=("distilbert",),
    ),
    Form(
        name="F8",
        says="The first token of a shortened sequence, then dense, tanh, dropout, linear.",
        recipe="cls+xlnet",
        options={"dropout": ("hidden_dropout",)},
        names={
            "sequence_summary.summary.": "classifier.linear_hidden.",
            "logits_proj.": "classifier.linear_out.",
        },
        families=("funnel",),
    ),
    _XLNET,
    Form(
        name="F10",
        says="The first token, then dropout and linear: the head of the BERT paper.",
        choice="summary_type",
        recipes={"first": "cls+linear", "last": "last+linear"},
        needs=_SUMMARY,
        options={"dropout": ("summary_first_dropout",)},
        names={"classifier.": "sequence_summary.summary."},
        families=("xlm", "flaubert"),
    ),
    Form(
        name="F11",
        says="The first token or the average, then dropout and linear.",
        choice="classifier_pooling",
        recipes={"cls": "cls+linear", "mean": "mean+linear"},
        options={"dropout": ("classifier_dropout",)},
        families=("ultrabert", "ultravbert"),
    ),
    _MODERNBERT,
    Form(
        name="F13",
        says="The last token, then dense, GELU, layer norm, dropout, linear without a bias.",
        recipe="last+modernbert?out_bias=false",
        options={**_LIKE_MODERNBERT, "out_bias": ("classifier_bias",)},
        sides=BOTH,
        late=True,
        families=("modernbert-decoder",),
    ),
    Form(
        name="F14",
        sides=BOTH,
        says="Dense, GELU, linear on every token, whose logits are averaged; or behind a pooling.",
        choice="classifier_pooling",
        recipes={"bos": "cls+eurobert", "mean": "mean+eurobert", "late": "mean+eurobert?late=true"},
        families=("eurobert",),
    ),
    _T5GEMMA,
    Form(
        name="F16",
        says="A learned query attends over the latents, then an MLP and a linear layer.",
        reason="Its head is a whole attention decoder of 21 tensors over 256 latents that stand "
        "for no token, not a pooling of tokens and a chain of layers.",
        families=("perceiver",),
    ),
    Form(
        name="F17",
        says="The first token beside two averages over the image's patches, then dropout, linear.",
        reason="It reads a page image as well as a text (through detectron2), and there is only "
        "text here.",
        families=("layoutlmv2",),
    ),
)
FAMILIES: Mapping[str, Form] = {name: form for form in FORMS for name in form.families}


def family(model_type: str) -> Form:
    """Return the form of a family; raise RecipeError if the catalogue does not know it."""
    if model_type not in FAMILIES:
        what = f"The catalogue knows no family '{model_type[:60]}'."
        hint = did_you_mean(model_type, FAMILIES) or "They are listed by: heads families."
        raise RecipeError(what, hint)
    return FAMILIES[model_type]
