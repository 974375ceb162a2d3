"""A classifier as a folder that works without this package: base model, head, one page of Python.

::

    backbone/          the base model and its tokenizer, as Transformers saves them
    head.safetensors   the tensors of the head, and of a pooling or layers that learned
    head.json          the recipe, the classes and what is known of the training
    load.py            texts to labels; needs torch, transformers and safetensors
    README.md          the model card
"""

import contextlib
import copy
import inspect
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from heads import __version__
from heads.backbone.backbone import TOKENS_A_BATCH, Backbone
from heads.backbone.weights import bare
from heads.caching import save_tensors, writing
from heads.catalog.base_models import base_of
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, DataError, RecipeError
from heads.exporters import portable_template
from heads.exporters.model_card import base_name, formulas, model_card, versions
from heads.exporters.portable_sources import (
    INDENT,
    Sources,
    call,
    constructor,
    globals_of,
    package_of,
)
from heads.exporters.verification import PAIRS, TEXTS, first_line, tried
from heads.parts.modules import last_linear, leaves, words
from heads.parts.registry import pairing
from heads.problem import ONE_VERSUS_REST, OutputActivation
from heads.settings import limits as limits_here

# --- What `load.py` is given and what it answers: texts or pairs, labels or numbers.

BEFORE: Mapping[OutputActivation, str] = {
    "softmax": "before the softmax",
    "sigmoid": "before the sigmoid",
    "normalised_sigmoid": "before the sigmoids that are put to a vote",
    "none": "which is the answer itself",
}
LABEL = '{"label": …, "score": …}'


def use(classifier: Classifier) -> str:
    """Lines that show how it is called."""
    activation = classifier.head.problem.output_activation
    shape = f"[[{LABEL}, …], …]" if activation == "sigmoid" else f"[{LABEL}, …]"
    page = portable_template.USE_APART if _apart(classifier) else portable_template.USE
    return page.substitute(shape=shape, logits=BEFORE[activation])


def answer_of(classifier: Classifier) -> str:
    """The method that turns logits into labels or numbers."""
    head = classifier.head
    logits = "self.logits(texts, pairs)"
    if head.problem.has_label_sets:
        threshold = "self.thresholds" if head.thresholds else "0"
        return portable_template.MANY.substitute(threshold=threshold)
    if not head.problem.has_classes:
        return portable_template.NUMBERS
    # The softmax of their logarithms are the sigmoids over their sum, and never 0 over 0.
    shares = f"nn.functional.logsigmoid({logits})" if head.problem is ONE_VERSUS_REST else logits
    return portable_template.ONE.substitute(probabilities=f"{shares}.softmax(dim=1)")


def passing(classifier: Classifier, joined: str) -> dict[str, str]:
    """How texts are cut and read in batches: whole, or each of a pair by itself.

    Args:
        joined: What becomes of two texts that are read as one sequence.
    """
    logits = f"One number a text and class, {BEFORE[classifier.head.problem.output_activation]}"
    if not _apart(classifier):
        begin, cut = portable_template.BEGIN.substitute(logits=logits), portable_template.CUT
        return {"begin": begin, "cut": cut.substitute(joined=joined), "found": "logits"}
    width = classifier.head.module.reader.width
    begin = portable_template.BEGIN_APART.substitute(logits=logits, width=width)
    return {"begin": begin, "cut": portable_template.CUT_APART, "found": "vectors"}


def compared(classifier: Classifier, sources: Sources) -> str:
    """The method by which what was read of two texts becomes logits, if they are read apart."""
    if not _apart(classifier):
        return ""
    made = sources.add(pairing[classifier.head.module.reader.resolved.pair].make)
    return portable_template.COMPARED.substitute(pairing=made)


def _apart(classifier: Classifier) -> bool:
    return classifier.head.module.is_siamese


# --- How `load.py` reads a base model, as lines of Python: the answer to a batch, and what is read.

SENTENCE = "The flight was late, and then it was cancelled; nobody at the gate could say why."
# What a part asks for, and what it is called on the page, where parts go by their own names.
CALLED = {
    "mask": "mask",
    "content": "content",
    "eos": "ends",
    "pooler": "summary",
    "hidden": "hidden",
    "decoder": "decoded",
    "states": "states",
}


def read_lines(classifier: Classifier) -> list[str]:
    """The base model's answer to rows of tokens, and what the head reads of it."""
    backbone, wanted = classifier.backbone, asked(classifier)
    resolved = classifier.head.module.reader.resolved
    lines = [*_run(backbone, whole="hidden" in wanted or resolved.layer >= 0)]
    lines.append('mask = inputs["attention_mask"].float()  # (n, t)')
    if backbone.skipped is not None and resolved.pooling.token == "last":
        lines += portable_template.SKIPPED.substitute(skipped=backbone.skipped).splitlines()
    if "content" in wanted:
        lines.append('special = filled([row["special_tokens_mask"] for row in rows], 1)')
        lines.append("content = mask * (special == 0)")
    if "eos" in wanted:
        ends = f"torch.tensor({sorted(backbone.ends)})"
        lines.append(f'ends = torch.isin(inputs["input_ids"], {ends}).float()')
    if "pooler" in wanted:
        lines.append("summary = output.pooler_output")
    if "states" in wanted or "hidden" in wanted:
        lines += _layers(classifier)
    if "decoder" in wanted:
        lines += portable_template.FURTHER.splitlines() * backbone.shifted
        lines.append("decoded = output.last_hidden_state.masked_fill((mask == 0)[..., None], 0.0)")
    return [*lines, f"return self.head({arguments(wanted)})"]


def _run(backbone: Backbone, whole: bool) -> list[str]:
    """The call of the base model, with what its family's classifier gives it besides."""
    model, given, lines = backbone.model, ["**inputs"], []
    if "use_cache" in inspect.signature(model.forward).parameters:
        given.append("use_cache=False")
    if base_of(backbone.model_type).marks_first:
        lines += portable_template.FIRST.splitlines()
        given.append("global_attention_mask=first")
    shifts = ("_shift_right", "prepare_decoder_input_ids_from_labels")
    shift = next((name for name in shifts if hasattr(model, name)), "")
    if backbone.decoder_width and shift:
        lines.append(f'shifted = self.backbone.{shift}(inputs["input_ids"])')
        given.append("decoder_input_ids=shifted")
    if whole:
        given.append("output_hidden_states=True")
    return [*lines, f"output = self.backbone({', '.join(given)})"]


def _layers(classifier: Classifier) -> list[str]:
    """The states of the one layer, or of all layers, that the recipe names; 0 on padding."""
    backbone, resolved = classifier.backbone, classifier.head.module.reader.resolved
    output = backbone.run(backbone.filled(backbone.encode([SENTENCE])))
    beside = getattr(output, "encoder_last_hidden_state", None)
    encoder = "encoder_" if beside is not None else ""
    last, hidden = f"output.{encoder}last_hidden_state", f"output.{encoder}hidden_states"
    states = output.last_hidden_state if beside is None else beside
    lines, stretched = ["padding = (mask == 0)[..., None]"], ""
    if states.shape[1] != len(backbone.encode([SENTENCE])[0]):
        lines.append("tokens = mask.shape[1]  # of which several have gone into one state each")
        lines.append(f"places = torch.arange(tokens) * {last}.shape[1] // tokens")
        stretched = "[:, places]"
    if resolved.layers:
        several = f"(*{hidden}[:-1], {last})" if backbone.layers else f"({last},)"
        lines.append(f"layers = {several}  # embeddings first")
        filled = f"layer{stretched}.masked_fill(padding, 0.0)"
        return [*lines, f"hidden = tuple({filled} for layer in layers)"]
    one = f"{hidden}[{resolved.layer}]" if -1 < resolved.layer < backbone.layers else last
    return [*lines, f"states = {one}{stretched}.masked_fill(padding, 0.0)  # (n, t, d)"]


def asked(classifier: Classifier) -> list[str]:
    """What the reading needs of the base model."""
    resolved = classifier.head.module.reader.resolved
    wanted = {*resolved.pooling.asks}
    if resolved.layers:
        wanted = wanted - {"states"} | {*resolved.layers.asks}
    return [name for name in CALLED if name in wanted]


def arguments(asks: Iterable[str]) -> str:
    """What is handed to a part, under the names of the page."""
    return ", ".join(CALLED[name] for name in asks)


def base_class(backbone: Backbone) -> tuple[str, str]:
    """The module and the name of the class that loads the base model."""
    kind: Any = type(backbone.model)
    if base_of(backbone.model_type).built_as:
        return "transformers", kind.__name__
    with torch.device("meta"):
        config = copy.deepcopy(backbone.model.config)  # building sets its attention
        if type(bare(config)) is kind:
            return "transformers", "AutoModel"
    return kind.__module__, kind.__name__


# --- `load.py`: a classifier as one page of Python that needs torch, transformers and safetensors.

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
    return portable_template.START.substitute(
        title=_quoted(f"{classifier.recipe} on {base_name(classifier.backbone)}"),
        out=_out(classifier),
        use=use(classifier),
        version=__version__,
        packages=", ".join(sorted(packages - {*sys.stdlib_module_names})),
    )


def _head(classifier: Classifier, sources: Sources) -> str:
    """The class `Head`: what is read, and the chain of layers."""
    reader = classifier.head.module.reader
    resolved, learned = reader.resolved, []
    if resolved.layers and resolved.layers.learned:
        made = call(resolved.layers.make, sources, classifier.backbone.layers + 1)
        learned.append(f'"layers": {made}')
    if resolved.pooling.learned:
        options = resolved.pooling_options
        made = call(resolved.pooling.make, sources, reader.state_width, **options)
        learned.append(f'"pooling": {made}')
    made = f"self.reader = nn.ModuleDict({{{', '.join(learned)}}})\n" if learned else ""
    inputs = [f"{CALLED[name]}: {_kind(name)}" for name in asked(classifier)]
    says = "\n".join([str(resolved.recipe), "", *resolved.says, "", *formulas(classifier), ""])
    return portable_template.HEAD.substitute(
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
    reader, resolved, lines = module.reader, module.reader.resolved, []
    if resolved.layers:
        made = (
            'self.reader["layers"]'
            if resolved.layers.learned
            else sources.add(resolved.layers.make)
        )
        lines.append(f"states = {made}({arguments(resolved.layers.asks)})")
    made, options = 'self.reader["pooling"]', ""
    if not resolved.pooling.learned:
        made = sources.add(resolved.pooling.make)
        options = "".join(f", {name}={value!r}" for name, value in resolved.pooling_options.items())
    read = f"{made}({arguments(resolved.pooling.asks)}{options})"
    answer = reader._answer(classifier.backbone.states(classifier.backbone.encode([SENTENCE])))[0]
    if not isinstance(answer, Tensor):
        return [*lines, *_ended(f"{read}.vectors", resolved.normalise, module.is_siamese)]
    cast = "" if answer.dtype == torch.float32 else ".to(states.dtype)"
    shape, weights = (
        ("(n, t)", "weights[:, None]") if answer.dim() == 2 else ("(n, k, t)", "weights")
    )
    lines.append(f"weights = {read}{cast}  # {shape}")
    if resolved.late:
        lines.append("logits = self.head(states)  # (n, t, c), of every token")
        return [*lines, f"return ({weights} @ logits).squeeze(1)"]
    read = f"({weights} @ states).flatten(1)"
    return [*lines, *_ended(read, resolved.normalise, module.is_siamese)]


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
    stubborn = portable_template.STUBBORN.substitute(
        special=_tuple(sorted(backbone.stubborn)),
        unknown=backbone.tokenizer.unk_token_id or 0,
        mark=portable_template.MARK if content else "",
    )
    given = [f", {n}={v!r}" for n, v in base_of(backbone.model_type).arguments.items()]
    return portable_template.LOADER.substitute(
        base=base,
        attention=backbone.model.config._attn_implementation,
        arguments="".join(given),
        out=_out(classifier),
        thresholds=portable_template.THRESHOLDS if classifier.head.thresholds else "",
        answer=answer_of(classifier),
        size="w" if classifier.head.module.is_siamese else "c",
        most=TOKENS_A_BATCH,
        same=portable_template.SAME if backbone.reads_padding else "",
        **passing(classifier, "" if backbone.separates else portable_template.JOINED),
        tokens=backbone.tokens - len(backbone.prompt),
        prompt=_prompt(backbone),
        special=portable_template.SPECIAL if content else "",
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
    return portable_template.PROMPT.substitute(
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
    return "labels" if classifier.head.problem.has_classes else "numbers"


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


FORMAT = "head-to-head portable"
VERSION = 1
FILES = ("README.md", "backbone", "head.json", "head.safetensors", "load.py")
MOST_DIFFERENCE = 5e-5  # what rounding comes to where a logit of 1 is the sum of terms of 50 in all
USAGE = """\
from load import load  # the load.py of this folder

classify = load()
classify({texts})
classify.logits({texts})
"""
TEXTS_OR_PAIRS = '["a text", "another text"]', '["a text"], ["a second text"]'


def write_portable(classifier: Classifier, folder: Path, *, why: str) -> float:
    """Writes a classifier as a folder that works without this package, and checks it.

    Args:
        folder: One that is not there yet, is empty, or was written by this function.
        why: Why it is no plain checkpoint of Transformers, in one sentence.

    Returns:
        The largest difference of two logits between the folder, loaded anew, and us.

    Raises:
        DataError: The folder cannot stand there.
        RecipeError: The source of a part is not to be had.
        CheckpointError: The folder does not give our logits; nothing is left of it.
    """
    folder = folder.expanduser().absolute()
    _check_place(folder)
    page = source(classifier)  # before anything is written: this may fail
    with writing(folder.name):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
            draft = Path(place) / "new"
            _write(classifier, draft, page, why)
            difference = _verify(classifier, draft)
            _publish(draft, folder, Path(place) / "old")
    return difference


def _check_place(folder: Path) -> None:
    """Refuses a folder that holds anything but an older export."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{folder.name} is no folder.", "Choose another name.")
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    foreign = sorted(held - {*FILES, "__pycache__"})
    if foreign or (held and not _is_export(folder)):
        found = foreign[0] if foreign else "files of another kind"
        what = f"{folder.name} is not empty: it holds {found}."
        raise DataError(what, "Choose a folder that is empty or not there yet.")


def _is_export(folder: Path) -> bool:
    try:
        return json.loads((folder / "head.json").read_text("utf-8"))["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(classifier: Classifier, folder: Path, page: str, why: str) -> None:
    folder.mkdir()
    _save_base(classifier.backbone, folder / "backbone")
    save_tensors(folder / "head.safetensors", classifier.head.module.state_dict())
    facts = json.dumps(_facts(classifier), ensure_ascii=False, indent=2)
    use = USAGE.format(texts=TEXTS_OR_PAIRS[classifier.head.needs_pairs])
    notes = [why, "Its `load.py` holds the source of what is read and of the head, to be read."]
    texts = {
        "head.json": facts + "\n",
        "load.py": page,
        "README.md": model_card(classifier, use, notes, library="head-to-head"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8", newline="\n")


def _save_base(backbone: Backbone, folder: Path) -> None:
    """The base model and its tokenizer, without chat templates or anything that names code."""
    backbone.model.save_pretrained(folder)
    tokenizer = copy.deepcopy(backbone.tokenizer)
    tokenizer.chat_template = None
    if tokenizer.is_fast:  # how the last text was cut is not the tokenizer's own
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    for path in folder.glob("*config.json"):
        values = json.loads(path.read_text("utf-8"))
        kept = {name: value for name, value in values.items() if name not in ("auto_map",)}
        path.write_text(json.dumps(kept, ensure_ascii=False, indent=2) + "\n", "utf-8")


def _facts(classifier: Classifier) -> dict[str, Any]:
    """What `head.json` says."""
    head, backbone = classifier.head, classifier.backbone
    chain = head.module.head
    last = last_linear(chain)
    return {
        "format": FORMAT,
        "version": VERSION,
        "recipe": str(head.recipe),
        "classes": head.classes,
        "problem_type": head.problem.name,
        "says": head.module.reader.resolved.says,
        "formula": formulas(classifier),
        "layers": {name: words(layer, is_last=name == last) for name, layer in leaves(chain)},
        "base_model": base_name(backbone),
        "base_revision": backbone.revision,
        "tokens": backbone.tokens,
        "trained_on": head.trained_on,
        "rows": head.rows,
        "scores": asdict(head.scores) if head.scores else None,
        "training": dict(head.training) if head.training else None,
        "fingerprint": head.fingerprint,
        "trained_as": str(head.asked),
        "chosen": dict(head.chosen),
        "temperature": head.temperature,
        "thresholds": head.thresholds,
        "paired": head.paired,
        "versions": versions(),
    }


def _verify(classifier: Classifier, folder: Path) -> float:
    """Loads the folder as a user would; by how much its logits differ from ours at most."""
    with _module(folder / "load.py") as page:
        try:
            loaded = page.load(folder)
            loaded(TEXTS[2:3], PAIRS[2:3])
        except Exception as error:
            said = f"{type(error).__name__}: {first_line(error)}"
            what = f"The folder of {classifier.recipe} does not load ({said})."
            raise CheckpointError(what, "It was not kept.") from error
        return tried(classifier, loaded.logits, most=MOST_DIFFERENCE)[1]


@contextlib.contextmanager
def _module(path: Path) -> Iterator[Any]:
    """A file of Python as a module, for a while; nothing is written beside it."""
    module = ModuleType(f"_{path.parent.parent.name.strip('.')}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for their module
    try:
        exec(compile(path.read_text("utf-8"), path, "exec"), vars(module))
        yield module
    finally:
        del sys.modules[module.__name__]


def _publish(draft: Path, folder: Path, old: Path) -> None:
    """Puts the new folder into its place, and the one before aside."""
    if folder.exists():
        folder.rename(old)
    try:
        draft.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
