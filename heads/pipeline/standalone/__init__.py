"""`load.py`: a classifier as one page of Python that needs torch, transformers and safetensors.

The page holds what this classifier needs and nothing else: the source of its pooling and layers
as they stand here, its head as a chain of calls, and how its base model is read.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any

import torch
from torch import Tensor

from heads import __version__
from heads.backbone.backbone import TOKENS_A_BATCH, Backbone
from heads.catalog.base_models import base_of
from heads.classifier.classifier import Classifier
from heads.errors import RecipeError
from heads.pipeline.card import base_name, formulas
from heads.pipeline.standalone import template
from heads.pipeline.standalone.answering import answer_of, compared, passing, use
from heads.pipeline.standalone.constructors import INDENT, call, constructor
from heads.pipeline.standalone.reading import (
    CALLED,
    SENTENCE,
    arguments,
    asked,
    base_class,
    read_lines,
)
from heads.pipeline.standalone.sources import Sources, globals_of, package_of
from heads.settings import limits as limits_here

TAKEN = {*CALLED.values(), "self", "u", "v", "weights", "vectors", "Head", "Classifier", "load"}
IMPORTS = {
    "json": ("json", ""),
    "unicodedata": ("unicodedata", ""),
    "OrderedDict": ("collections", "OrderedDict"),
    "Sequence": ("collections.abc", "Sequence"),
    "Path": ("pathlib", "Path"),
    "Any": ("typing", "Any"),
    "torch": ("torch", ""),
    "load_file": ("safetensors.torch", "load_file"),
    "Tensor": ("torch", "Tensor"),
    "nn": ("torch", "nn"),
    "AutoTokenizer": ("transformers", "AutoTokenizer"),
}


def source(classifier: Classifier) -> str:
    """The text of `load.py`.

    Raises:
        RecipeError: The source of a part is not to be had, or its name is taken.
    """
    sources = Sources()
    module, base = base_class(classifier.backbone)
    head, rest = _head(classifier, sources), _loader(classifier, base)
    for name, meant in {**IMPORTS, base: (module, base)}.items():
        sources.imported(name, *meant)
    for name in sources.pieces:
        if name in TAKEN | globals_of(rest):
            what = f"load.py needs the name '{name}' for itself."
            raise RecipeError(what, "Give that part another name.")
    start = f"{_start(classifier, sources)}\n\n{import_lines(sources.imports)}"
    return "\n\n\n".join([start, *sources.pieces.values(), head, rest])


def _start(classifier: Classifier, sources: Sources) -> str:
    packages = {package_of(module) for module, _ in sources.imports.values()}
    return template.START.substitute(
        title=_quoted(f"{classifier.recipe} on {base_name(classifier.backbone)}"),
        out=_out(classifier),
        use=use(classifier),
        version=__version__,
        packages=", ".join(sorted(packages - {*sys.stdlib_module_names})),
    )


def _head(classifier: Classifier, sources: Sources) -> str:
    """The class `Head`: what is read, and the chain of layers."""
    reader = classifier.head.module.reader
    order, learned = reader.order, []
    if order.layers and order.layers.learned:
        made = call(order.layers.make, sources, classifier.backbone.layers + 1)
        learned.append(f'"layers": {made}')
    if order.pooling.learned:
        options = order.pooling_options
        made = call(order.pooling.make, sources, reader.state_width, **options)
        learned.append(f'"pooling": {made}')
    made = f"self.reader = nn.ModuleDict({{{', '.join(learned)}}})\n" if learned else ""
    inputs = [f"{CALLED[name]}: {_kind(name)}" for name in asked(classifier)]
    says = "\n".join([str(order.recipe), "", *order.says, "", *formulas(classifier), ""])
    return template.HEAD.substitute(
        says=indent(_quoted(says), INDENT).lstrip() + INDENT,
        reader=indent(made, INDENT * 2),
        chain=constructor(classifier.head.module.head, sources, depth=2),
        inputs=", ".join(inputs),
        forward=_block(_forward(classifier, sources), 2),
        compared=compared(classifier, sources),
    )


def _forward(classifier: Classifier, sources: Sources) -> list[str]:
    """From what is read of the base model to logits; of pairs read apart, to one text's vector."""
    module = classifier.head.module
    reader, order, lines = module.reader, module.reader.order, []
    if order.layers:
        made = 'self.reader["layers"]' if order.layers.learned else sources.add(order.layers.make)
        lines.append(f"states = {made}({arguments(order.layers.asks)})")
    made, options = 'self.reader["pooling"]', ""
    if not order.pooling.learned:
        made = sources.add(order.pooling.make)
        options = "".join(f", {name}={value!r}" for name, value in order.pooling_options.items())
    read = f"{made}({arguments(order.pooling.asks)}{options})"
    answer = reader._answer(classifier.backbone.states(classifier.backbone.encode([SENTENCE])))[0]
    if not isinstance(answer, Tensor):
        return [*lines, *_ended(f"{read}.vectors", order.normalise, module.is_siamese)]
    cast = "" if answer.dtype == torch.float32 else ".to(states.dtype)"
    shape, weights = (
        ("(n, t)", "weights[:, None]") if answer.dim() == 2 else ("(n, k, t)", "weights")
    )
    lines.append(f"weights = {read}{cast}  # {shape}")
    if order.late:
        lines.append("logits = self.head(states)  # (n, t, c), of every token")
        return [*lines, f"return ({weights} @ logits).squeeze(1)"]
    read = f"({weights} @ states).flatten(1)"
    return [*lines, *_ended(read, order.normalise, module.is_siamese)]


def _ended(vectors: str, normalise: bool, apart: bool) -> list[str]:
    """The end of what the head does with one text: its vector, or logits."""
    vectors = f"nn.functional.normalize({vectors}, dim=-1)" if normalise else vectors
    if apart:
        return [f"return {vectors}  # (n, w)"]
    return [f"vectors = {vectors}  # (n, w)", "return self.head(vectors)"]


def _loader(classifier: Classifier, base: str) -> str:
    """Everything on the page that is not a part: texts to tokens, base model, logits."""
    backbone = classifier.backbone
    names = [*backbone.encode([SENTENCE])[0].inputs]
    fillings = [_filling(name, backbone.pad * (name == "input_ids")) for name in names]
    fillings.append('"attention_mask": filled([[1] * len(row["input_ids"]) for row in rows], 0),')
    content = "content" in asked(classifier)
    kept = [*names, *["special_tokens_mask"] * content]
    stubborn = template.STUBBORN.substitute(
        special=_tuple(sorted(backbone.stubborn)),
        unknown=backbone.tokenizer.unk_token_id or 0,
        mark=template.MARK if content else "",
    )
    given = [f", {n}={v!r}" for n, v in base_of(backbone.model_type).arguments.items()]
    return template.LOADER.substitute(
        base=base,
        attention=backbone.model.config._attn_implementation,
        arguments="".join(given),
        out=_out(classifier),
        thresholds=template.THRESHOLDS if classifier.head.thresholds else "",
        answer=answer_of(classifier),
        size="w" if classifier.head.module.is_siamese else "c",
        most=TOKENS_A_BATCH,
        same=template.SAME if backbone.reads_padding else "",
        **passing(classifier, "" if backbone.separates else template.JOINED),
        tokens=backbone.tokens - len(backbone.prompt),
        prompt=_prompt(backbone),
        special=template.SPECIAL if content else "",
        names=_tuple(kept),
        stubborn=stubborn if backbone.stubborn else "",
        fillings=_block(fillings, 3),
        read=_block(read_lines(classifier), 2),
        letters=limits_here().text_characters,
    )


def _prompt(backbone: Backbone) -> str:
    """How the prompt is written behind every text; nothing where there is none."""
    if not backbone.prompt:
        return ""
    token = backbone.tokenizer.mask_token_id
    return template.PROMPT.substitute(
        size=len(backbone.prompt),
        numbers=", ".join(map(str, backbone.prompt)),
        marks=", ".join(str(int(number != token)) for number in backbone.prompt),
    )


def _kind(name: str) -> str:
    return "Sequence[Tensor]" if name == "hidden" else "Tensor"


def _filling(name: str, filling: int) -> str:
    return f'"{name}": filled([row["{name}"] for row in rows], {filling}),'


def _tuple(values: Sequence[Any]) -> str:
    text = ", ".join(map(json.dumps, values))
    return text + "," * (len(values) == 1)


def _block(lines: Sequence[str], depth: int) -> str:
    return indent("\n".join(lines), INDENT * depth)


def _out(classifier: Classifier) -> str:
    return "numbers" if classifier.head.squash == "none" else "labels"


def _quoted(text: str) -> str:
    """A text as it may stand within a docstring."""
    return text.replace("\\", "\\\\").replace('"""', "'''")


def import_lines(imports: Mapping[str, tuple[str, str]]) -> str:
    """Import statements, one a module, the standard library's first.

    >>> print(import_lines({"nn": ("torch", "nn"), "np": ("numpy", ""), "re": ("re", "")}))
    import re
    <BLANKLINE>
    import numpy as np
    from torch import nn
    """
    members: dict[tuple[bool, int, str], list[str]] = {}
    for name, (module, member) in imports.items():
        alias = f" as {name}" if name != (member or module) else ""
        kind = 0 if module == "__future__" else 2 if member else 1
        key = (package_of(module) not in sys.stdlib_module_names, kind, module)
        members.setdefault(key, []).append((member or module) + alias)
    groups: dict[bool, list[str]] = {False: [], True: []}
    for (installed, kind, module), names in sorted(members.items()):
        start = "import" if kind == 1 else f"from {module} import"
        groups[installed].append(f"{start} {', '.join(sorted(names))}")
    return "\n\n".join("\n".join(lines) for lines in groups.values() if lines)
