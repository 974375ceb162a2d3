"""Usual names of the columns of labelled tables, the clearest first, and words in their names."""

import re

TEXTS = (
    "text", "texts", "sentence", "sentences", "review", "reviewtext", "reviewbody", "body",
    "content", "opinion", "narrative", "tweet", "tweettext", "utterance", "message", "comment",
    "commenttext", "sms", "instruction", "excerpt", "essay",
    "post", "document", "doc", "description", "paragraph", "passage", "snippet", "question",
    "questiontext", "query", "phrase", "statement", "transcript", "article", "abstract",
    "response", "feedback", "situation", "sit", "prompt", "input", "string", "headline", "title",
    "subject", "texta", "sentence1", "premise", "question1",
)  # fmt: skip
LABELS = (
    "labeltext", "labelname", "goldlabel", "label", "labels", "class", "classlabel",
    "category", "categories", "sentiment", "intent", "emotion", "stance", "topic", "target",
    "targets", "polarity", "entailmentjudgment", "entailmentlabel", "isduplicate", "annotation",
    "y", "rating", "stars", "quality", "score", "similarity", "relatedness", "recommended",
    "verdict", "rate", "status", "classname", "tag", "tags", "genre", "type", "output", "answer",
)  # fmt: skip
# Called so, a column may be the label, or something else about the texts.
WEAK = frozenset((
    "tag", "tags", "genre", "type", "output", "answer", "status", "product", "department", "party",
    "points", "severity", "priority", "language", "kind",
))  # fmt: skip
# Called so, a column of 0 and 1 is the label, whatever others there are; one called "quality"
# may as well be one label of several.
SURELY = (
    *LABELS[: LABELS.index("category")], "classname", "target", "targets", "sentiment",
    "polarity", "stance", "intent", "emotion", "topic", "isduplicate",
)  # fmt: skip
PAIRS = (
    ("texta", "textb"), ("text1", "text2"), ("sentence1", "sentence2"),
    ("sentencea", "sentenceb"), ("premise", "hypothesis"), ("question1", "question2"),
    ("1string", "2string"), ("string1", "string2"), ("sent1", "sent2"), ("s1", "s2"),
    ("query1", "query2"), ("question", "sentence"), ("claim", "evidence"), ("text", "textpair"),
    ("sentence", "sentencepair"), ("question", "passage"), ("headline", "body"),
)  # fmt: skip
VECTORS = ("vectors", "vector", "embeddings", "embedding", "features", "x", "arr0")
SPLITS = ("split", "set", "fold", "partition", "subset", "usage")
# What the cells of such a column say, and what they mean.
PARTS = {
    "train": "train", "training": "train", "trn": "train",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
    "development": "validation", "eval": "validation",
    "test": "test", "testing": "test", "tst": "test",
}  # fmt: skip
# A word in a name that says that the column is about a text or a label, and is neither.
ABOUT = frozenset((
    "id", "ids", "count", "counts", "date", "time", "timestamp", "length", "len", "num", "number",
    "index", "url", "link", "user", "username", "author", "lang", "language", "confidence",
    "source", "votes", "helpful", "helpfulness", "useful", "thumbs", "reply", "version", "page",
    "image", "file", "filename", "location", "address", "country", "city", "state", "zip", "phone",
    "year", "month", "day", "timezone", "coord", "created",
))  # fmt: skip
# A word in a name that says that the cells are names, above all of persons.
PERSONS = frozenset((
    "name", "user", "username", "reviewer", "author", "authors", "speaker", "customer", "screen",
    "profile", "by",
))  # fmt: skip
# A word in the name of a column that says how good somebody finds something.
OPINIONS = frozenset((
    "rating", "ratings", "star", "stars", "score", "recommended", "recommend", "rate", "points",
))  # fmt: skip
# What cells say that answer the commonest questions, as `plain` spells it.
ANSWERS = frozenset((
    "positive", "negative", "neutral", "pos", "neg", "neu", "mixed", "extremelypositive",
    "extremelynegative", "verypositive", "verynegative", "irrelevant", "spam", "ham", "entailment",
    "contradiction", "notentailment", "favor", "against", "fake", "real", "toxic", "offensive",
    "joy", "sadness", "anger", "fear", "love", "surprise", "disgust", "happy", "sad", "angry",
    "halftrue", "mostlytrue", "barelytrue", "pantsfire", "pantsonfire", "depression", "anxiety",
    "normal", "suicide", "nonsuicide",
))  # fmt: skip


def plain(name: str) -> str:
    """Return a column's name without case, spaces and signs.

    >>> plain("#1 String"), plain("Review_Body")
    ('1string', 'reviewbody')
    """
    return re.sub(r"[\W_]+", "", name.casefold())


def words(name: str) -> list[str]:
    """Return the words of a column's name.

    >>> words("reviewBody_text")
    ['review', 'body', 'text']
    """
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.findall(r"[^\W_]+", parted.casefold())


def is_known(name: str) -> bool:
    """Return True if a cell is called like a column of a labelled table."""
    key = plain(name)
    return key in TEXTS or key in LABELS or key in SPLITS or any(key in pair for pair in PAIRS)
