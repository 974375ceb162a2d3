"""The endpoint `labels` of the page."""

from typing import Any

from heads.extras.labels.verbs import doubtful_labels
from heads.interfaces.docstrings import described
from heads.interfaces.web.arguments import check_types

NO_RECIPES: list[str] = []


@check_types
@described(
    doubtful_labels,
    returns="The labels from the most doubtful on, each with its line, what is suggested and how "
    "probable both are; texts that are labelled in several ways; and what to know of it.",
)
def labels(run: str, recipes: list[str] = NO_RECIPES) -> dict[str, Any]:
    """Lists the labels of a run that may be wrong.

    Args:
        run: The id of the run.
    """
    return doubtful_labels(run, recipes=recipes).as_json()


ENDPOINTS = ((labels, "inspect"),)
