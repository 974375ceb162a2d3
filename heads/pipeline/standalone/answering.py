"""What `load.py` is given and what it answers: texts or pairs, labels or numbers."""

from collections.abc import Mapping

from heads.classifier.classifier import Classifier
from heads.evaluation.statistics import Squash
from heads.parts.registry import pairing
from heads.pipeline.standalone import template
from heads.pipeline.standalone.sources import Sources

BEFORE: Mapping[Squash, str] = {
    "softmax": "before the softmax",
    "sigmoid": "before the sigmoid",
    "votes": "before the sigmoids that are put to a vote",
    "none": "which is the answer itself",
}
LABEL = '{"label": …, "score": …}'


def use(classifier: Classifier) -> str:
    """Lines that show how it is called."""
    shape = f"[[{LABEL}, …], …]" if classifier.head.squash == "sigmoid" else f"[{LABEL}, …]"
    page = template.USE_APART if _apart(classifier) else template.USE
    return page.substitute(shape=shape, logits=BEFORE[classifier.head.squash])


def answer_of(classifier: Classifier) -> str:
    """The method that turns logits into labels or numbers."""
    head = classifier.head
    logits = "self.logits(texts, pairs)"
    if head.squash == "sigmoid":
        threshold = "self.thresholds" if head.thresholds else "0"
        return template.MANY.substitute(threshold=threshold)
    if head.squash == "none":
        return template.NUMBERS
    # The softmax of their logarithms are the sigmoids over their sum, and never 0 over 0.
    shares = f"nn.functional.logsigmoid({logits})" if head.squash == "votes" else logits
    return template.ONE.substitute(probabilities=f"{shares}.softmax(dim=1)")


def passing(classifier: Classifier, joined: str) -> dict[str, str]:
    """How texts are cut and read in batches: whole, or each of a pair by itself.

    Args:
        joined: What becomes of two texts that are read as one sequence.
    """
    logits = f"One number a text and class, {BEFORE[classifier.head.squash]}"
    if not _apart(classifier):
        begin, cut = template.BEGIN.substitute(logits=logits), template.CUT
        return {"begin": begin, "cut": cut.substitute(joined=joined), "found": "logits"}
    width = classifier.head.module.reader.width
    begin = template.BEGIN_APART.substitute(logits=logits, width=width)
    return {"begin": begin, "cut": template.CUT_APART, "found": "vectors"}


def compared(classifier: Classifier, sources: Sources) -> str:
    """The method by which what was read of two texts becomes logits, if they are read apart."""
    if not _apart(classifier):
        return ""
    made = sources.add(pairing[classifier.head.module.reader.order.pair].make)
    return template.COMPARED.substitute(pairing=made)


def _apart(classifier: Classifier) -> bool:
    return classifier.head.module.is_siamese
