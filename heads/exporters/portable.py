"""A classifier as a folder that works without this package: base model, head, and what runs them.

::

    backbone/          the base model and its tokenizer, as Transformers saves them
    head.safetensors   the tensors of the head, and of a pooling or layers that learned
    head.json          the recipe, the classes and what is known of the training
    heads_1f3a9c0b/    the files of this package that run a head, as they are
    load.py            texts to labels; needs torch, transformers and safetensors
    README.md          the model card

In the files only the package's own name is another one. It is made of their contents: folders of
other versions stand beside each other in one process, and beside Head to Head itself.
"""

import ast
import contextlib
import copy
import hashlib
import inspect
import json
import linecache
import re
import runpy
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.metadata import packages_distributions
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

import torch

import heads
from heads.backbone.backbone import Backbone
from heads.backbone.tokenizing import isolate_alike
from heads.backbone.trained_reading import PROMPTS, sentence_files
from heads.backbone.weights import bare
from heads.caching import is_ours
from heads.catalog.base_models import base_of
from heads.checked_files import fill_tensors
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, RecipeError
from heads.exporters.model_card import Publication, base_name, formulas, model_card, versions
from heads.exporters.verification import PAIRS, TEXTS, example, first_line, verify_logits
from heads.parts.modules import last_linear, words
from heads.parts.registry import loss, pairing
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import OutputActivation
from heads.settings import limits as limits_here

# --- The files that go along: ours, and those in which somebody has parts of their own.

COPIED = (
    *("__init__.py", "display.py", "errors.py", "interruption.py"),
    *("recipe.py", "problem.py", "rng.py"),
    "parts/*.py",
    *("catalog/__init__.py", "catalog/forms.py", "catalog/base_models.py"),
    *("data/__init__.py", "data/text.py"),
    *("backbone/__init__.py", "backbone/backbone.py", "backbone/device.py", "backbone/states.py"),
    *("backbone/trained_reading.py", "backbone/windows.py"),
    *("backbone/unpadded/*.py", "features/__init__.py", "features/featurizer.py"),
    *("exporters/__init__.py", "exporters/standalone.py"),
)
OWN = "own_"  # how the files of one's own parts begin


def sources(resolved: ResolvedRecipe) -> tuple[str, dict[str, str]]:
    """The name of the package that goes along, and the text of each of its files.

    Raises:
        RecipeError: A part of one's own cannot go along.
    """
    home = Path(heads.__file__).parent
    texts = {
        path.relative_to(home).as_posix(): path.read_text("utf-8")
        for pattern in COPIED
        for path in sorted(home.glob(pattern))
    }
    own = _own_files(resolved)
    texts |= {f"{OWN}{number}.py": text for number, text in enumerate(own, start=1)}
    package = f"heads_{hashlib.sha256(repr(texts).encode()).hexdigest()[:8]}"
    renamed = {name: _renamed(text, package) for name, text in texts.items()}
    for name in renamed:
        if name.startswith(OWN):
            _check_imports(renamed[name], package)
    return package, renamed


def _renamed(text: str, package: str) -> str:
    r"""A file that imports from another package where it imported from `heads`.

    >>> print(_renamed("import heads\nfrom heads.parts import heads", "heads_1"))
    import heads_1 as heads
    from heads_1.parts import heads
    """
    text = re.sub(r"(?m)^( *import) heads\b(?!\.| as )", rf"\1 {package} as heads", text)
    return re.sub(r"(?m)^( *(?:from|import)) heads\b", rf"\1 {package}", text)


def _own_files(resolved: ResolvedRecipe) -> list[str]:
    """The text of every file that holds a part of this recipe which is not built in.

    Raises:
        RecipeError: A part stands in no file, or not at the top of one.
    """
    parts = [resolved.pooling, resolved.layers, resolved.head, loss[resolved.loss]]
    parts += [pairing[resolved.pair]] if resolved.pair else []
    parts += [resolved.tuning] if resolved.is_tuned else []
    found: dict[str, str] = {}
    for make in (part.make for part in parts if part and not is_ours(part.make)):
        if "<locals>" in make.__qualname__:
            what = f"{make.__name__} is made within a function, so its source does not stand alone."
            raise RecipeError(what, "Move it to the top of its file.")
        function: Any = inspect.unwrap(make.forward if isinstance(make, type) else make)
        name = function.__code__.co_filename
        linecache.checkcache(name)
        found[name] = "".join(linecache.getlines(name, function.__globals__))  # a notebook's too
        if not found[name]:
            what = f"The source of {make.__name__} cannot be found."
            raise RecipeError(what, "Keep it in a file of its own.")
    return list(found.values())


def _check_imports(text: str, package: str) -> None:
    """Refuses a file of one's own that imports what will not be there.

    Raises:
        RecipeError: It imports something that is neither installed nor Head to Head.
    """
    there = {package, *sys.stdlib_module_names, *packages_distributions()} - {"heads"}
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            if name.partition(".")[0] not in there:
                what = f"The file of a part of your own imports {name}, which does not go along."
                hint = "Let it import installed packages; write import heads on a line of its own."
                raise RecipeError(what, hint)


# --- The folder, filled and loaded anew.

FORMAT = "head-to-head portable"
VERSION = 1
NOT_AS_IT_IS = (  # of Backbone
    *("folder", "model", "tokenizer", "pooler_weights", "block", "before", "trained", "sentences"),
)
MOST_DIFFERENCE = 5e-5  # what rounding comes to where a logit of 1 is the sum of terms of 50 in all
LOAD = Template('''\
"""Texts in, $out out.

    from load import load

    classify = load()  # README.md says what to ask it

Written by Head to Head $version. It needs torch, transformers and safetensors.
What is read of a text and what the head computes is to be read in $package/parts.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).absolute().parent
if str(FOLDER) not in sys.path:
    sys.path.append(str(FOLDER))

$imports


def load(folder: str | Path = FOLDER) -> StandaloneClassifier:
    """Brings the classifier into memory; the folder is the one of this file if not given."""
    return StandaloneClassifier(Path(folder))
''')
USE = """\
from load import load  # the load.py of this folder

classify = load()
print(classify({texts}))  # {answer}
print(classify.logits({texts}))  # (n, c), {activation}
"""
FROM_HUB = """\
import sys
from huggingface_hub import snapshot_download

sys.path.insert(0, snapshot_download({repo}))
"""
VECTORS = "vectors"  # an array (n, w)
TEXTS_OR_PAIRS = '["a text", "another text"]', '["a text"], ["a second text"]'
ANSWER = '{"label": …, "score": …}'
BEFORE: Mapping[OutputActivation, str] = {
    "softmax": "before the softmax",
    "sigmoid": "before the sigmoid",
    "normalised_sigmoid": "before the sigmoids that are put to a vote",
    "none": "which is the answer itself",
}


def write_portable(
    classifier: Classifier, folder: Path, *, why: str, published: Publication | None = None
) -> float:
    """Fills a folder that works without this package, and loads it as anybody would.

    Args:
        folder: An empty one.
        why: Why it is no plain checkpoint of Transformers, in one sentence.
        published: What is said of it on the Hub.

    Returns:
        The largest difference of two logits between the folder, loaded anew, and us.

    Raises:
        RecipeError: A part of one's own cannot go along.
        CheckpointError: The folder does not give our logits.
    """
    head = classifier.head
    package, files = sources(head.module.reader.resolved)
    own = [name.removesuffix(".py") for name in files if name.startswith(OWN)]
    imports = [f"from {package}.exporters.standalone import StandaloneClassifier"]
    page = LOAD.substitute(
        out="labels" if head.problem.has_classes else "numbers",
        version=heads.__version__,
        package=package,
        imports="\n".join(imports + [f"import {package}.{name}" for name in own]),
    )
    use = USE.format(
        texts=VECTORS if classifier.backbone.is_given else TEXTS_OR_PAIRS[head.needs_pairs],
        answer=f"[[{ANSWER}, …], …]" if head.problem.has_label_sets else f"[{ANSWER}, …]",
        activation=BEFORE[head.problem.output_activation],
    )
    if published:
        use = FROM_HUB.format(repo=json.dumps(published.repo)) + use
    notes = [why, f"The source of what is read and of the head is to be read in `{package}/parts`."]
    facts = json.dumps(_facts(classifier), ensure_ascii=False, indent=2, default=sorted)  # of sets
    texts = {
        "head.json": facts + "\n",
        "load.py": page,
        "README.md": model_card(
            classifier, use, notes, library="head-to-head", published=published
        ),
        **{f"{package}/{name}": text for name, text in files.items()},
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8", newline="\n")
    fill_tensors(folder / "head.safetensors", head.module.state_dict())
    if not classifier.backbone.is_given:
        _save_base(classifier.backbone, folder / "backbone")
    return _verify(classifier, folder, package)


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
        values.pop("auto_map", None)
        path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", "utf-8")
    if backbone.trained is not None and backbone.folder is not None:
        for path in sentence_files(backbone.folder):
            kept = folder / path.relative_to(backbone.folder)
            kept.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, kept)
    elif prompts := dict(backbone.sentences.prompts):  # a recipe may name one of them
        told = json.dumps({"prompts": prompts}, ensure_ascii=False, indent=2)
        (folder / PROMPTS).write_text(told + "\n", "utf-8")


def _facts(classifier: Classifier) -> dict[str, Any]:
    """What `head.json` says."""
    head, backbone = classifier.head, classifier.backbone
    chain = head.module.head
    last = last_linear(chain)
    return {
        "format": FORMAT,
        "version": VERSION,
        **head.facts,
        "says": head.says,
        "formula": formulas(classifier),
        "layers": {name: words(layer, is_last=name == last) for name, layer in head.layers},
        "base_model": base_name(backbone),
        "base_revision": backbone.revision,
        "tokens": backbone.tokens,
        "versions": versions(),
        "letters": limits_here().text_characters,
        "base": None if backbone.is_given else _base(backbone),
        "backbone": {
            one.name: getattr(backbone, one.name)
            for one in fields(backbone)
            if one.name not in NOT_AS_IT_IS
        }
        | {"id": base_name(backbone)},  # which names no folder of this machine
    }


def _base(backbone: Backbone) -> dict[str, Any]:
    """How the base model is loaded: by which class, and what that is told."""
    kind: Any = type(backbone.model)
    needs, module, name = base_of(backbone.model_type), kind.__module__, kind.__name__
    with torch.device("meta"):
        config = copy.deepcopy(backbone.model.config)  # building sets its attention
        if not needs.built_as and type(bare(config)) is kind:
            module, name = "transformers", "AutoModel"
    return {
        "module": module,
        "class": name,
        "attention": backbone.model.config._attn_implementation,
        "arguments": dict(needs.arguments),
    }


def _verify(classifier: Classifier, folder: Path, package: str) -> float:
    """Loads the folder as a user would; by how much its logits differ from ours at most."""
    with _imported(folder, package):
        try:
            loaded = runpy.run_path(str(folder / "load.py"))["load"](folder)
            isolate_alike(loaded.backbone.tokenizer, classifier.backbone.tokenizer)
            paired = classifier.head.module.reader.resolved.takes_pairs
            loaded(*(example(classifier) or (TEXTS[2:3], PAIRS[2:3] * paired)))
        except Exception as error:
            said = f"{type(error).__name__}: {first_line(error)}"
            what = f"The folder of {classifier.recipe} does not load ({said})."
            raise CheckpointError(what, "It was not kept.") from error
        return verify_logits(classifier, loaded.logits, most=MOST_DIFFERENCE)[1]


_importing = threading.Lock()  # a package of one name is there once


@contextlib.contextmanager
def _imported(folder: Path, package: str) -> Iterator[None]:
    """Within it, a folder's package is imported anew, and nothing is written beside it."""

    def taken_out() -> dict[str, ModuleType]:
        names = [name for name in sys.modules if name.partition(".")[0] == package]
        return {name: sys.modules.pop(name) for name in names}

    with _importing:
        others, before = taken_out(), sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(folder))  # before an older folder with the same files
        try:
            yield
        finally:
            sys.path.remove(str(folder))
            sys.dont_write_bytecode = before
            taken_out()
            sys.modules.update(others)
