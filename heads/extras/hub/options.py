"""The options of `heads.push`."""

from collections.abc import Sequence
from dataclasses import dataclass

from heads.options import option


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Options of `heads.push`: which head, in which form, and what its page on the Hub says."""

    recipe: str = option("", "The head of a run. Default: the recommended one, or else the best.")
    library: str = option(
        "", "What is to load it: transformers (the default) or sentence-transformers."
    )
    adapter: bool = option(
        False,
        "Push what was learned alone, as an adapter of PEFT for the base model.",
        is_switch=True,
    )
    private: bool = option(
        False,
        "Make a private repository. Default: what the settings of its owner say.",
        is_switch=True,
    )
    license: str = option(
        "", "The licence on the card, such as apache-2.0. Default: the base model's, if known."
    )
    language: Sequence[str] = option((), "The languages of the texts, such as en.")
    replace: bool = option(
        False,
        "Overwrite a model that is there already; all of its files are deleted.",
        is_switch=True,
    )
    dry_run: bool = option(
        False,
        "Send nothing: write the folder here, under the model's name, and show the card.",
        is_switch=True,
    )
    refit: bool = option(True, "Train the head again on all rows first, as heads.export does.")
