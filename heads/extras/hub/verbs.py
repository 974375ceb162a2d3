"""The function of the package that this extra adds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.events import result
from heads.extras.hub.options import PushOptions
from heads.options import merge_options, takes_options

if TYPE_CHECKING:
    from heads.classifier.classifier import Classifier
    from heads.extras.hub.pushing import Pushed
    from heads.runs.leaderboard import Leaderboard


@takes_options(PushOptions)
def push(
    head: Classifier | Leaderboard | str,
    repo: str,
    *,
    options: PushOptions | None = None,
    **changes: Any,
) -> Pushed:
    """Push a trained head with its base model and a model card to the Hugging Face Hub.

    It is exported and compared first, as by `heads.export`. The token is the one that
    `hf auth login` saves, or $HF_TOKEN.

    Args:
        head: A run, by its id or as `heads.train_grid` returns it; or a classifier.
        repo: The repository on the Hub, as owner/name.
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        What was pushed, or would be: `.url`, `.card`, `.exported`, `.notes`.

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

    (merged,) = merge_options((options or PushOptions(),), changes)
    source, url, commit = "", "", ""
    pushing.check_push(repo, merged)
    check_library(merged.library, adapter=merged.adapter)
    if not isinstance(head, Classifier):
        board = leaderboard(find(head)) if isinstance(head, str | Path) else head
        head = board.classifier(merged.recipe)
        source = str(board.folder.read("run.json")["account"].get("source", ""))
    head = result(head.refitted()) if merged.refit else head
    published, notes = pushing.build_publication(head, repo, merged, source)
    with tempfile.TemporaryDirectory(prefix="head-to-head-push-") as temporary:
        folder = Path(repo.partition("/")[2]) if merged.dry_run else Path(temporary, "model")
        form = {"library": merged.library, "adapter": merged.adapter}
        exported = export(head, folder, **form, published=published)
        card = (folder / "README.md").read_text("utf-8")
        if not merged.dry_run:
            url, commit = pushing.upload(folder, repo, merged)
    facts = {"card": card, "exported": exported, "notes": notes}
    return pushing.Pushed(repo=repo, url=url, commit=commit, **facts)
