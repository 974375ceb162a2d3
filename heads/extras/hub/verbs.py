"""The function of the package that this extra adds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heads.events import result

if TYPE_CHECKING:
    from heads.classifier.classifier import Classifier
    from heads.extras.hub.pushing import Pushed
    from heads.runs.leaderboard import Leaderboard


def push(
    head: Classifier | Leaderboard | str,
    repo: str,
    *,
    recipe: str = "",
    library: str = "",
    adapter: bool = False,
    private: bool = False,
    license: str = "",
    language: Sequence[str] = (),
    replace: bool = False,
    dry_run: bool = False,
    refit: bool = True,
) -> Pushed:
    """Push a trained head with its base model and a model card to the Hugging Face Hub.

    It is exported and compared first, as by `heads.export`. The token is the one that
    `hf auth login` saves, or $HF_TOKEN.

    Args:
        head: A run, by its id or as `heads.train_grid` returns it; or a classifier.
        repo: The repository on the Hub, as owner/name.
        recipe: The head of a run. Default: the recommended one, or else the best.
        library: What is to load it: transformers (the default) or sentence-transformers.
        adapter: Push what was learned alone, as an adapter of PEFT for the base model.
        private: Make a private repository. Default: what the settings of its owner say.
        license: The licence on the card, such as apache-2.0. Default: the base model's, if known.
        language: The languages of the texts, such as en.
        replace: Overwrite a model that is there already; all of its files are deleted.
        dry_run: Send nothing: write the folder here, under the model's name, and show the card.
        refit: Train the head again on all rows first, as `heads.export` does.

    Raises:
        CheckpointError: There is no token, the Hub does not take it, or it cannot be exported.
        RecipeError: The library cannot compute it.
        DataError: There is no such run, or no such head in it.
        LimitError: The server is public.
    """
    from heads.classifier.classifier import Classifier
    from heads.exporters.export import check_library, export
    from heads.extras.hub import pushing
    from heads.runs.folder import find
    from heads.runs.leaderboard import leaderboard

    source, url, commit = "", "", ""
    pushing.check_push(repo, replace=replace, dry_run=dry_run)
    check_library(library, adapter=adapter)
    if not isinstance(head, Classifier):
        board = leaderboard(find(head)) if isinstance(head, str | Path) else head
        head = board.classifier(recipe)
        source = str(board.folder.read("run.json")["account"].get("source", ""))
    head = result(head.refitted()) if refit else head
    published, notes = pushing.build_publication(head, repo, license, language, source)
    with tempfile.TemporaryDirectory(prefix="head-to-head-push-") as temporary:
        folder = Path(repo.partition("/")[2]) if dry_run else Path(temporary, "model")
        exported = export(head, folder, library=library, adapter=adapter, published=published)
        card = (folder / "README.md").read_text("utf-8")
        if not dry_run:
            url, commit = pushing.upload(folder, repo, private=private, replace=replace)
    options = {"card": card, "exported": exported, "notes": notes}
    return pushing.Pushed(repo=repo, url=url, commit=commit, **options)
