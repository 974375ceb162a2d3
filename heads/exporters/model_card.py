"""Write the model card of a classifier, from the Jinja2 template beside this file.

Names and labels come from foreign tables and folders: a card shows them as text, never as markup.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import StrictUndefined, Template

from heads import __version__
from heads.backbone.backbone import Backbone
from heads.backbone.models import BUNDLED
from heads.classifier.classifier import Classifier
from heads.classifier.config_extras import shares
from heads.classifier.module import TrainedHead
from heads.classifier.pretrained import fine_tuned_warning
from heads.evaluation.metrics import SCORES, Metric, score_called
from heads.evaluation.statistics import Scores
from heads.hub import HUB_ID
from heads.parts.modules import formula
from heads.parts.registry import pairing

TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
MAX_CLASSES = 50
MAX_CHARACTERS = 200
PACKAGES = ("torch", "transformers", "safetensors")
SETTINGS = ("base_epochs", "base_rate", "epochs", "learning_rate", "head_rate")
MARKUP = re.compile(r"([\\`*_{}\[\]()<>#!|~$&@:])")
# The Hub's names of metrics, where it has its own.
HUB_METRICS = {
    "mcc": "matthews_correlation", "spearman": "spearmanr", "pearson": "pearsonr",
    "macro_f1": "f1", "micro_f1": "f1", "weighted_f1": "f1", "samples_f1": "f1",
    "r2": "r_squared", "neg_mean_squared_error": "mse", "neg_mean_absolute_error": "mae",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What the Hub shows of a model besides what the model itself says.

    Attributes:
        repo: The repository, as owner/name.
        license: The licence by its name on the Hub, or "" if none is stated.
        language: The codes of the languages of its texts.
        dataset: The id of the data set on the Hub that the head was trained on, or "".
        dataset_config: One of its configurations, or "".
        dataset_split: One of its splits, or "".
        dataset_revision: Its commit, or "".
    """

    repo: str
    license: str = ""
    language: tuple[str, ...] = ()
    dataset: str = ""
    dataset_config: str = ""
    dataset_split: str = ""
    dataset_revision: str = ""


def model_card(
    classifier: Classifier,
    usage: str,
    notes: Sequence[str],
    *,
    library: str = "transformers",
    is_adapter: bool = False,
    has_code: bool = False,
    published: Publication | None = None,
) -> str:
    """Return a README.md in the Hugging Face Hub's form.

    Args:
        notes: Further facts about the folder, one sentence each.
        library: The Hub's name of the library that loads the folder.
        is_adapter: Whether the folder holds an adapter instead of the base model.
        published: What the Hub shows besides.
    """
    published = published or Publication(repo="")
    head, backbone, scores = classifier.head, classifier.backbone, classifier.head.scores
    metric = score_called(scores.metric if scores else "") or SCORES["accuracy"]
    is_mean = head.refit.trainings > 1 if head.refit else bool(scores and scores.own is not None)
    versions = [f"head-to-head {__version__}", *(f"{name} {version(name)}" for name in PACKAGES)]
    metadata = ModelCardData(
        library_name=library,
        # The pipeline of Transformers loads no folder of another library.
        pipeline_tag="text-classification" if library == "transformers" else None,
        license=published.license or None,
        language=list(published.language) or None,
        datasets=[published.dataset] if published.dataset else None,
        base_model=hub_id(backbone) or None,
        tags=["text-classification", "head-to-head"] + ["custom_code"] * has_code,
    )
    if scores:
        title = f"{head.recipe} on {base_name(backbone)}"
        metadata.model_name = published.repo.rpartition("/")[2] or one_line(title)
        metadata.eval_results = [_eval_result(head, scores, metric, is_mean, published)]
    template = Template(TEMPLATE.read_text("utf-8"), trim_blocks=True, undefined=StrictUndefined)
    return template.render(
        metadata=metadata.to_yaml(),
        usage=usage.strip(),
        notes=notes,
        head=head,
        classes=[plain(name) for name in head.classes[:MAX_CLASSES]],
        thresholds=[*shares(head.classes, head.thresholds).values()] if head.thresholds else [],
        backbone=backbone,
        base=base_name(backbone),
        prefix=json.dumps(backbone.prefix, ensure_ascii=False),
        is_adapter=is_adapter,
        published=published,
        logits=formula([layer for _, layer in head.layers]),
        pairing=pairing,
        metric=metric,
        is_mean=is_mean,
        warning=fine_tuned_warning(backbone) if scores else "",
        # A base model that was trained on pairs before its head has settings of its own.
        settings=SETTINGS[:2] if head.asked.tuning.paired else SETTINGS[2:],
        versions=", ".join(versions),
        number="{:,}".format,
        plain=plain,
    )


def base_name(backbone: Backbone) -> str:
    """Return the name of a base model: its id on the Hub, or the last name of its folder."""
    return hub_id(backbone) or Path(backbone.id).name or "a base model"


def hub_id(backbone: Backbone) -> str:
    """Return a base model's id on the Hub, or an empty string."""
    if backbone.id == BUNDLED:
        return f"sentence-transformers/{BUNDLED}"
    is_commit = re.fullmatch(r"[0-9a-f]{40}", backbone.untuned.revision)
    return backbone.id if is_commit and HUB_ID.fullmatch(backbone.id) else ""


def plain(text: str) -> str:
    r"""Return a foreign text in one line, without what Markdown or HTML would read.

    >>> plain("<b>a|b</b>\n# c")
    '\\<b\\>a\\|b\\</b\\> \\# c'
    """
    return MARKUP.sub(r"\\\1", one_line(text))


def one_line(text: str) -> str:
    r"""Return a foreign text in one line of limited length, for YAML, which escapes by itself.

    >>> one_line("my_data:\n- x")
    'my_data: - x'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_CHARACTERS else line[:MAX_CHARACTERS] + "…"


def _eval_result(
    head: TrainedHead, scores: Scores, metric: Metric, is_mean: bool, published: Publication
) -> EvalResult:
    """Return the score of a head in the Hub's form, with its interval."""
    sign = -1 if metric.scale == "error" else 1  # errors are negated, so that more is better
    low, high = sorted((sign * scores.low, sign * scores.high))
    trainings = "mean of several trainings, one per fold or seed, " * is_mean
    interval = f"95 % interval {low:.4f} to {high:.4f}, {scores.rows:,} rows"
    return EvalResult(
        task_type="text-classification",
        task_name="Text Classification",
        dataset_type=published.dataset or one_line(head.trained_on),
        dataset_name=one_line(head.trained_on),
        dataset_config=published.dataset_config or None,
        dataset_split=published.dataset_split or None,
        dataset_revision=published.dataset_revision or None,
        metric_type=HUB_METRICS.get(scores.metric, scores.metric),
        metric_name=f"{metric.title} ({trainings}{interval})",
        metric_value=round(sign * scores.accuracy, 4),
    )
