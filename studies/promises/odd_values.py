"""What P13 feeds to whatever takes something from outside: bytes, JSON, names, arguments."""

import json
import struct
from typing import Any

from hypothesis import strategies as st

SPECIAL = (
    "",
    " ",
    "null",
    "None",
    "nan",
    "NaN",
    "inf",
    "-1",
    "1e999",
    "true",
    "[]",
    "{}",
    "0",
    "..",
    "../../etc/passwd",
    "C:\\Windows",
    "\\\\evil\\share",
    "a" * 300,
    "\u202eabc",
    "\x00",
    "\x1b[31m",
    "<script>alert(1)</script>",
    "=1+1",
    "'; drop",
    "%s%n",
    "[CLS]",
    "${x}",
    "\ud800",
    "é" * 40,
    "\ufeff",
    "text",
    "label",
    "a\nb",
    "a\r\nb",
)
WORDS = st.sampled_from(SPECIAL) | st.text(max_size=40)
ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(2**63), 2**31]),
    st.floats(),
    WORDS,
    st.lists(WORDS, max_size=3),
    st.dictionaries(WORDS, WORDS, max_size=2),
)


def jsonlike(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values as JSON has them."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
        max_leaves=8,
    )


JSON = jsonlike(st.none() | st.booleans() | st.integers() | st.floats() | WORDS)


def changed(good: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a sound file with a few of them changed, cut out or put in, or its end lost."""

    def apply(edits: list[tuple[int, int, bytes]]) -> bytes:
        found = bytearray(good)
        for place, lost, new in edits:
            at = place % (len(found) + 1)
            found[at : at + lost] = new
        return bytes(found)

    # The first bytes are where files say what they are, so half of the edits fall there.
    place = st.integers(0, 64) | st.integers(0, max(64, len(good)))
    edit = st.tuples(place, st.integers(0, 8) | st.just(10**9), st.binary(max_size=8))
    return st.lists(edit, min_size=1, max_size=4).map(apply)


# --- Tables


ENDINGS = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".parquet", ".xlsx", ".csv.gz", "")
LINES = st.lists(st.lists(WORDS, max_size=4).map(",".join), max_size=8).map("\n".join)
OBJECTS = st.lists(JSON.map(lambda value: json.dumps(value, default=str)), max_size=5)


def tables(good: list[bytes]) -> st.SearchStrategy[tuple[bytes, str]]:
    """The bytes of a table, and how its name ends.

    Args:
        good: Sound files of all kinds.
    """
    content = st.one_of(
        st.binary(max_size=300),
        LINES.map(lambda text: text.encode("utf-8", "surrogatepass")),
        LINES.map(lambda text: b"text,label\n" + text.encode("utf-16", "surrogatepass")),
        OBJECTS.map("\n".join).map(str.encode),
        OBJECTS.map(lambda values: f"[{','.join(values)}]".encode()),
        st.sampled_from(good).flatmap(changed),
    )
    return st.tuples(content, st.sampled_from(ENDINGS))


HINTS = st.fixed_dictionaries(
    {
        "names": st.lists(WORDS, min_size=5, max_size=5),
        "form": st.sampled_from(["", "one", "number", "columns", "|", ";", ",", "[]"]) | WORDS,
        "labels": st.lists(WORDS, max_size=3),
        "order": st.lists(WORDS, max_size=3),
    }
)


# --- Heads


NAMES = st.sampled_from(
    ["classifier.weight", "classifier.bias", "dense.weight", "__metadata__", "x", ""]
)
TENSOR = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "BF16", "I64", "BOOL", "F8_E4M3", "x"]) | ODD,
        "shape": st.sampled_from([[2, 384], [2], [0], [], [2**62, 4], [-1], [3, 384]]) | ODD,
        "data_offsets": st.sampled_from([[0, 3072], [3072, 3080], [0, 0], [8, 0], [0, 2**63]])
        | ODD,
    }
)
METADATA = st.fixed_dictionaries(
    {"labels": st.sampled_from(['["a","b"]', "[1]", "{", '["a"]', "[" * 3000]) | WORDS},
    optional={"base_model": WORDS, "format": WORDS},
)
HEADERS = st.dictionaries(NAMES, TENSOR | JSON | METADATA, max_size=4)


def _file(header: Any, length: int | None, body: bytes) -> bytes:
    said = json.dumps(header, default=str).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(said) if length is None else length) + said + body


def head_files(good: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a head's safetensors file."""
    length = st.none() | st.integers(0, 2**64 - 1)
    made = st.builds(_file, HEADERS | JSON, length, st.just(bytes(3080)) | st.binary(max_size=40))
    return changed(good) | made | st.binary(max_size=64)


# --- Configs of base models


VALUES = ODD | st.sampled_from([0, 1, 2, 3, 32, 64, 128, 1000, 10**5, 10**9, -1, 0.5])


def configs(good: dict[str, Any], types: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """A config.json: a sound one with a few values changed, lost or added.

    Args:
        good: The sound one.
        types: Values of model_type.
    """
    more = (
        "auto_map",
        "attn_implementation",
        "_attn_implementation",
        "quantization_config",
        "id2label",
        "label2id",
        "num_labels",
        "architectures",
        "torch_dtype",
        "dtype",
        "text_config",
        "rope_scaling",
        "pad_token_id",
        "is_decoder",
        "add_cross_attention",
        "chunk_size_feed_forward",
        "tie_word_embeddings",
        "problem_type",
        "n_layer",
        "base_model_tp_plan",
    )
    keys = st.sampled_from([*good, *more]) | WORDS
    values = VALUES | st.dictionaries(keys, VALUES, max_size=3)
    changes = st.dictionaries(keys, values, min_size=1, max_size=3)
    kinds = st.none() | st.sampled_from(types) | st.none()

    def put(change: dict[str, Any], kind: str | None, lost: set[str]) -> dict[str, Any]:
        named = {"model_type": kind} if kind else {}
        return {n: v for n, v in {**good, **change, **named}.items() if n not in lost}

    return st.builds(put, changes, kinds, st.sets(keys, max_size=1))


# --- Names of runs, and links


IDS = st.one_of(
    WORDS,
    st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./\\~", max_size=40),
    st.sampled_from(["sample:sentiment", "sample:x", "r" + "a" * 22, ".", "/", "~", "a/../b"]),
)
FIELDS = (
    "place",
    "text",
    "pair",
    "model",
    "sample",
    "run",
    "recipes",
    "pairs",
    "lane",
    "show",
    "result",
    "head",
)
LINKS = st.one_of(
    WORDS,
    st.dictionaries(st.sampled_from(FIELDS) | WORDS, IDS, max_size=6),
    st.lists(st.tuples(st.sampled_from(FIELDS), IDS), max_size=6).map(
        lambda pairs: "?" + "&".join(f"{name}={value}" for name, value in pairs)
    ),
)


# --- Arguments of endpoints


RECIPES = st.sampled_from(
    [
        "mean+linear",
        "cls+linear",
        "mean+logistic",
        "own",
        "mean",
        "+",
        "mean+linear?x=1",
        "mean@9+linear",
        "cls@cat4+linear",
        "mean+linear?tune=full",
        "attention+linear?late=true",
    ]
)
TEXTS = st.sampled_from(["A fine film.", "[CLS] [SEP]", "a" * 30_000, "word " * 300]) | WORDS
SAMPLES = st.sampled_from(["", "sentiment", "pairs", "similarity", "sentimnet"])
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "pair": st.just("") | TEXTS,
    "recipe": RECIPES | WORDS,
    "recipes": st.lists(RECIPES | WORDS, max_size=3),
    "model": st.sampled_from(["all-MiniLM-L6-v2", "a/b", "/etc", ".."]) | WORDS,
    "sample": SAMPLES | WORDS,
    "run": st.just("") | IDS,
    "pairs": st.sampled_from(["joint", "siamese", "uv_diff", "x"]) | WORDS,
    "label": st.sampled_from(["", "positive", "x"]) | WORDS,
    "against": st.sampled_from(["others", "runner-up", "x"]) | WORDS,
    "edits": st.lists(TEXTS, max_size=3),
    "without": st.sampled_from(["", "dense", "x"]) | WORDS,
    "raw": st.booleans(),
    "retrain": st.booleans(),
    "temperature": st.floats() | st.integers(-1, 5),
    "one": RECIPES | WORDS,
    "other": RECIPES | WORDS,
}


def arguments(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of an endpoint: of their own type mostly, and now and then of any other."""
    usual = st.fixed_dictionaries({name: ARGUMENTS[name] for name in names})
    wrong = st.dictionaries(st.sampled_from(names), ODD, max_size=1) if names else st.just({})
    return st.builds(lambda one, other: {**one, **other}, usual, wrong)
