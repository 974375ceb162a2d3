"""Base models small enough to be written for a test: every family, random weights, 100 pieces."""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from heads.backbone import loading
from heads.catalog.tiny_models import tiny_model

loading.MODELS_IN_MEMORY = 64
TINY_WIDTH, TINY_LAYERS, TINY_POSITIONS, TINY_VOCABULARY = 32, 2, 40, 100
WORDS = (
    *("the", "cat", "sat", "on", "a", "mat", "dog", "ran", "home"),
    *("it", "was", "late", "flight", "cancelled", "twice", "and"),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = (*SPECIAL, *dict.fromkeys((*WORDS, *LETTERS)), *(f"##{c}" for c in LETTERS), *"[].,!")


class Family(NamedTuple):
    """A family of Transformers, made small: its classes, its tokens around a text, its config."""

    classes: str
    template: str
    config: dict[str, Any]


def sized(names: str, **more: Any) -> dict[str, Any]:
    """A small config: what a family calls its width, layers, heads and inner width, in a line."""
    sizes = (TINY_WIDTH, TINY_LAYERS, 2, 48)
    return {"vocab_size": TINY_VOCABULARY, **dict(zip(names.split(), sizes, strict=False)), **more}


PLACES = {"max_position_embeddings": TINY_POSITIONS}
ENDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
BERT_LIKE = sized("hidden_size num_hidden_layers num_attention_heads intermediate_size", **PLACES)
DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "type_vocab_size": 0,
    "position_biased_input": False,
}
FAMILIES: dict[str, Family] = {
    "bert": Family("Bert", "segments", BERT_LIKE),
    "roberta": Family("Roberta", "around", BERT_LIKE | {"type_vocab_size": 1, "pad_token_id": 0}),
    "distilbert": Family(
        "DistilBert", "around", sized("dim n_layers n_heads hidden_dim", **PLACES)
    ),
    "xlnet": Family("XLNet", "behind", sized("d_model n_layer n_head d_inner")),
    "gpt2": Family("GPT2", "none", sized("n_embd n_layer n_head", n_positions=TINY_POSITIONS)),
    "electra": Family("Electra", "segments", BERT_LIKE | {"embedding_size": 16}),
    "mpnet": Family("MPNet", "around", BERT_LIKE),
    "deberta-v2": Family("DebertaV2", "around", BERT_LIKE | DISENTANGLED),
    "modernbert": Family(
        "ModernBert", "around", BERT_LIKE | ENDS | {"cls_token_id": 2, "sep_token_id": 3}
    ),
    "llama": Family("Llama", "none", BERT_LIKE | {"num_key_value_heads": 1}),
    "t5": Family("T5", "after", sized("d_model num_layers num_heads d_ff", d_kv=16)),
    "bart": Family(
        "Bart",
        "around",
        sized("d_model encoder_layers encoder_attention_heads encoder_ffn_dim", **PLACES, **ENDS)
        | {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 48}
        | {"decoder_start_token_id": 2, "forced_eos_token_id": None},
    ),
}
TEMPLATES = {
    "segments": ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"),
    "around": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]"),
    "behind": ("$A [SEP] [CLS]:2", "$A [SEP] $B:1 [SEP]:1 [CLS]:2"),
    "after": ("$A [SEP]", "$A [SEP] $B [SEP]"),
}


# One of each form, and others whose base model or tokenizer is unlike the rest: the family, the
# tokens around a text, and the recipe.
FORMS = {
    "gpt2": ("none", "last+gpt2"),
    "bert": ("segments", "cls+bert"),
    "roberta": ("around", "cls+roberta"),
    "electra": ("segments", "cls+electra"),
    "bart": ("around", "eos@decoder+roberta?dropout=0.0"),
    "deberta-v2": ("around", "cls+deberta"),
    "distilbert": ("around", "cls+distilbert"),
    "funnel": ("segments", "cls+xlnet"),
    "xlnet": ("behind", "last+xlnet"),
    "xlm": ("around", "cls+linear"),
    "ultrabert": ("around", "cls+linear?dropout=0.0"),
    "modernbert": ("around", "cls+modernbert"),
    "modernbert-decoder": ("around", "last+modernbert?out_bias=false"),
    "eurobert": ("around", "mean+eurobert?late=true"),
    "t5gemma": ("after", "last@decoder+linear?dropout=0.0"),
}
OTHERS = {
    "llama": ("none", "last+gpt2"),
    "opt": ("around", "last+gpt2"),
    "gemma3": ("around", "last+gpt2"),
    "albert": ("segments", "cls+bert"),
    "fnet": ("segments", "cls+bert"),
    "gte": ("around", "cls+bert"),
    "nomic_bert": ("around", "cls+bert?dropout=0.0"),
    "longformer": ("around", "cls+roberta"),
    "reformer": ("around", "cls+roberta?dropout=0.05&hidden=32"),
    "t5": ("after", "eos@decoder+roberta?dropout=0.0"),
    "t5gemma2": ("after", "last@decoder+linear?dropout=0.0"),
}


def small_tokenizer(template: str) -> transformers.PreTrainedTokenizerFast:
    """A WordPiece tokenizer of a hundred pieces."""
    numbers = {piece: number for number, piece in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if template == "none":
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, unk_token="[UNK]", eos_token="[SEP]"
        )
    single, pair = TEMPLATES[template]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(name, numbers[name]) for name in SPECIAL]
    )
    types = ["token_type_ids"] if template in ("segments", "behind") else []
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", *types, "attention_mask"],
    )


def save_tiny(folder: Path, family: str, kind: str = "Model", **config: Any) -> Path:
    """Writes a small random model of a family, and its tokenizer, as save_pretrained does."""
    facts = FAMILIES[family]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        settings = getattr(transformers, f"{facts.classes}Config")(**facts.config | config)
        getattr(transformers, facts.classes + kind)(settings).save_pretrained(folder)
    small_tokenizer(facts.template).save_pretrained(folder)
    if family == "bert" and kind in ("Model", "ForMaskedLM"):
        save_modules(folder)
    return folder


def save_modules(folder: Path) -> None:
    """Writes what sentence-transformers writes of a model that gives the average, at length 1."""
    names = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    listed = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for number, (path, name) in enumerate(names.items())
    ]
    (folder / "modules.json").write_text(json.dumps(listed), "utf-8")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "mean"}), "utf-8")


def write_classifier(folder: Path, model_type: str, template: str = "", **settings: Any) -> Path:
    """Writes a family's own classifier, small and random all over, and a tokenizer that suits."""
    usual = {"vocab_size": TINY_VOCABULARY, "pad_token_id": 0}
    tiny_model(model_type, **usual | settings).save_pretrained(folder)
    suits = template or {**FORMS, **OTHERS}[model_type][0]
    small_tokenizer(suits).save_pretrained(folder)
    return folder


def rewrite(path: Path, **values: Any) -> None:
    """Changes values of a JSON file; one of ours has no checksum then, as in earlier versions."""
    before = json.loads(path.read_text("utf-8"))
    before.pop("crc32", None)
    path.write_text(json.dumps(before | values), "utf-8")


# Tokenizers that cut texts as those of real checkpoints do: spaces, accents and control characters
# become tokens of their own, which `small_tokenizer` passes over.
LEARNED_FROM = (
    "the cat sat on a mat, the dog ran home; it was late and the flight was cancelled twice",
    "Not bad at all. Not good at all. A café au lait, a naïve review, so good",
)
PIECES = 400
Cut = Literal["bytes", "pieces", "words"]


def real_tokenizer(cut: Cut, template: str, most: int) -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer that keeps what a family's keeps of a text.

    Args:
        cut: "bytes" as GPT-2, RoBERTa and Llama 3 (byte-level BPE), "pieces" as T5 and DeBERTa-v2
            (SentencePiece's Unigram), "words" as BERT (cased WordPiece).
        template: The tokens around a text, as in `TEMPLATES`, or "none".
        most: The most tokens of a text.
    """
    learned: dict[str, Any] = {
        "vocab_size": PIECES,
        "special_tokens": list(SPECIAL),
        "show_progress": False,
    }
    if cut == "bytes":
        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        letters = pre_tokenizers.ByteLevel.alphabet()
        trainer: Any = trainers.BpeTrainer(**learned, initial_alphabet=letters)
    elif cut == "pieces":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(**learned, unk_token="[UNK]")
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(**learned)
    tokenizer.train_from_iterator(LEARNED_FROM, trainer)
    if template != "none":
        single, pair = TEMPLATES[template]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(name, at) for at, name in enumerate(SPECIAL)]
        )
    types = ["token_type_ids"] if template in ("segments", "behind") else []
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        eos_token="[SEP]",
        model_max_length=most,
        model_input_names=["input_ids", *types, "attention_mask"],
    )
