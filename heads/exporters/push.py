"""A classifier to the Hugging Face Hub, as a model of the user's own: its export, with its card."""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heads import display
from heads.backbone.models import MODELS
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, HeadsError, LimitError
from heads.exporters.export import Exported, check_place, export
from heads.exporters.model_card import Publication, hub_id
from heads.hub import HUB_ID
from heads.settings import Limits, is_offline

LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")
LANGUAGE = re.compile(r"[a-z]{2,3}|code|multilingual")
_LOG_IN = "Run: hf auth login, or set HF_TOKEN to a token that may write."
_REPLACE = "Choose another name, or add --replace to put this in the place of what is there."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed(display.Displayed):
    """What was put onto the Hub, or would have been.

    Attributes:
        repo: Where: owner/name.
        url: Its address; "" where nothing was sent.
        commit: The commit; "" where nothing was sent.
        card: Its model card.
        exported: What was written: the class, the files, and how nearly it answers as we do.
        notes: What one should know, a sentence each.
    """

    repo: str
    url: str
    commit: str
    card: str
    exported: Exported
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same as plain values: the answer of `heads push --json`."""
        own = self.exported.as_json()
        if self.commit:
            own.pop("folder")  # which is gone
        named = {name: getattr(self, name) for name in ("repo", "url", "commit", "card")}
        return named | {"notes": list(self.notes)} | {"exported": own}


def check_push(repo: str, limits: Limits, *, replace: bool, dry_run: bool) -> None:
    """Refuses what could not be pushed, before any work is done for it.

    Raises:
        LimitError: It is asked for in public.
        CheckpointError: The name is none, there is no token, or something is there already.
    """
    if limits.public:
        raise LimitError("Heads are pushed in local mode alone.", "Export it, and upload it.")
    if not HUB_ID.fullmatch(repo) or "/" not in repo:
        what = f"'{repo[:80]}' is no place on the Hub."
        raise CheckpointError(what, "Write owner/name: your name there, and a new one.")
    if dry_run:
        check_place(_folder(repo), onnx=False)
        return
    if is_offline():
        what = "This process is told to stay offline (HF_HUB_OFFLINE)."
        raise CheckpointError(what, "Unset it, or add --dry-run.")
    import huggingface_hub

    if not huggingface_hub.get_token():
        raise CheckpointError("There is no token of the Hub on this machine.", _LOG_IN)
    with _asking(repo):
        is_there = huggingface_hub.HfApi().repo_exists(repo)
    if is_there and not replace:
        raise CheckpointError(f"{repo} is on the Hub already.", _REPLACE)


def push(
    classifier: Classifier,
    repo: str,
    *,
    library: str = "",
    adapter: bool = False,
    private: bool = False,
    license: str = "",
    language: Sequence[str] = (),
    source: str = "",
    replace: bool = False,
    dry_run: bool = False,
) -> Pushed:
    """What `heads.push` does once `check_push` has found nothing: exports, and sends that.

    Args:
        source: Of a data set of the Hub its name down to the commit.
    """
    published, notes = _published(classifier, repo, license, language, source)
    settings = {"library": library, "adapter": adapter, "published": published}
    if dry_run:
        return _told(repo, export(classifier, _folder(repo), **settings), notes)
    with tempfile.TemporaryDirectory(prefix="head-to-head-push-") as place:
        exported = export(classifier, Path(place) / "model", **settings)
        told = _told(repo, exported, notes)
        url, commit = _sent(exported.folder, repo, private=private, replace=replace)
    return Pushed(repo=repo, url=url, commit=commit, card=told.card, exported=exported, notes=notes)


def _folder(repo: str) -> Path:
    """Where a dry run writes: a folder of the model's name, here."""
    return Path(repo.rpartition("/")[2])


def _told(repo: str, exported: Exported, notes: tuple[str, ...]) -> Pushed:
    card = (exported.folder / "README.md").read_text("utf-8")
    return Pushed(repo=repo, url="", commit="", card=card, exported=exported, notes=notes)


def _published(
    classifier: Classifier, repo: str, license: str, language: Sequence[str], source: str
) -> tuple[Publication, tuple[str, ...]]:
    """What the card says besides; a licence that is not named is that of a known base model.

    Raises:
        CheckpointError: A licence or a language is not written as the Hub writes them.
    """
    if license and not LICENCE.fullmatch(license):
        what = f"'{license[:60]}' is no licence as the Hub names it."
        raise CheckpointError(what, "Write it as in apache-2.0, mit or cc-by-4.0.")
    if odd := [one for one in language if not LANGUAGE.fullmatch(one)]:
        what = f"'{odd[0][:60]}' is no code of a language."
        raise CheckpointError(what, "Write it as in en or de.")
    base, notes = hub_id(classifier.backbone), ()
    known = {model.id: model.licence for model in MODELS}
    known = next(
        (own for name, own in known.items() if base in (name, f"sentence-transformers/{name}")), ""
    )
    if not license and known:
        notes = (
            f"Its card states the licence of its base model, {known}; --license names another.",
        )
    elif not license:
        notes = ("Its card states no licence; --license names one.",)
    found = Publication(
        repo=repo, license=license or known, language=tuple(language), source=source
    )
    return found, notes


def _sent(folder: Path, repo: str, *, private: bool, replace: bool) -> tuple[str, str]:
    """Makes the repository and sends a folder to it in one commit; its address, and the commit.

    Raises:
        CheckpointError: The Hub does not take it.
    """
    import huggingface_hub

    api = huggingface_hub.HfApi()
    with _asking(repo):
        url, is_new = _repository(api, repo, private=private, replace=replace)
        try:
            if private and not api.repo_info(repo).private:  # one that was there stays as it is
                what = f"{repo} is public on the Hub, and a private one was asked for: "
                do = "Make it private there, or leave --private out."
                raise CheckpointError(f"{what}nothing is sent.", do)
            sent = api.upload_folder(
                repo_id=repo,
                folder_path=folder,
                commit_message="A head by Head to Head",
                delete_patterns="*" if replace else None,  # a loader of before is of no use
            )
        except BaseException:  # an empty one would be in the way of the next push
            if is_new:
                with contextlib.suppress(Exception):  # what went wrong first is what is told
                    api.delete_repo(repo)
            raise
    return url, sent.oid


def _repository(api: Any, repo: str, *, private: bool, replace: bool) -> tuple[str, bool]:
    """The address of a repository, and whether it is a new one, made just now."""
    from huggingface_hub.errors import HfHubHTTPError

    asked = {"private": private or None}  # unsaid, the owner's own default holds
    try:
        return str(api.create_repo(repo, **asked)), True
    except HfHubHTTPError:
        if not replace:
            raise
        return str(api.create_repo(repo, exist_ok=True, **asked)), False


@contextlib.contextmanager
def _asking(repo: str) -> Iterator[None]:
    """Says in one sentence why the Hub does not take a model.

    Raises:
        CheckpointError: It does not.
    """
    try:
        yield
    except HeadsError:
        raise
    except Exception as error:  # the client has changed its HTTP library more than once
        # What went wrong with one of several files is its cause.
        answers = (getattr(one, "response", None) for one in (error, error.__cause__))
        status = next((one.status_code for one in answers if one is not None), 0)
        if status in (401, 403):
            what = f"The Hub does not let this token write to {repo} ({status})."
            raise CheckpointError(what, _LOG_IN) from None
        if status == 409:
            raise CheckpointError(f"{repo} is on the Hub already.", _REPLACE) from None
        if status:
            what = f"The Hub did not take {repo} ({status})."
            raise CheckpointError(what, "Try again later, or add --dry-run.") from None
        if isinstance(error, ValueError):  # it looks at the card before it takes anything
            what = f"The Hub does not take the model card of {repo}."
            raise CheckpointError(what, "Look at it with --dry-run.") from None
        what = f"The Hub cannot be reached, so {repo} is not sent."
        raise CheckpointError(what, "Try again once connected, or add --dry-run.") from None
