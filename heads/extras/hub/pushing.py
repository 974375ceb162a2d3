"""Push the export of a classifier, with its card, to the Hugging Face Hub."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import huggingface_hub

from heads import display
from heads.backbone.models import MODELS
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, HeadsError, LimitError
from heads.exporters.export import Exported, check_place
from heads.exporters.model_card import Publication, hub_id
from heads.extras.hub.datasets import PREFIX, HubDataset, parse_dataset
from heads.extras.hub.options import PushOptions
from heads.hub import HUB_ID
from heads.settings import current_limits, is_offline

LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")
LANGUAGE = re.compile(r"[a-z]{2,3}|code|multilingual")
_LOG_IN = "Run: hf auth login, or set HF_TOKEN to a token with write access."
_TRY_LATER = "Try again later, or add --dry-run."
_REPLACE = "Choose another name, or add --replace to overwrite it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed(display.Displayed):
    """A model that was pushed to the Hub, or would have been."""

    repo: str  # as owner/name
    url: str  # "" after a dry run
    commit: str  # "" after a dry run
    card: str
    exported: Exported
    notes: tuple[str, ...] = ()  # what the user should know, one sentence each

    def describe(self) -> display.Description:
        """Return what shell and notebook show: where it is, or what would have been sent."""
        export = self.exported
        files = f"{len(export.files)} files, {export.called}"
        exact = f"Loaded anew, its logits differ from ours by at most {export.difference:.1g}."
        if self.commit:
            title = f"{self.repo} is on the Hub: {self.url} ({files})"
            return display.Description(title=title, blocks=(exact, *self.notes))
        title = f"Nothing was sent. {self.repo} would be {files}."
        folder = f"They lie in the folder {export.folder}, to be looked at; delete it afterwards."
        return display.Description(
            title=title, blocks=(folder, exact, *self.notes, display.Code(self.card))
        )

    def as_json(self) -> dict[str, Any]:
        """Return the answer of `heads push --json` as plain values."""
        exported = self.exported.as_json()
        if self.commit:
            del exported["folder"]  # it was temporary
        return asdict(self) | {"notes": list(self.notes), "exported": exported}


def check_push(repo: str, options: PushOptions) -> None:
    """Raise HeadsError if a model cannot be pushed, before any work is done for it."""
    if current_limits().public:
        raise LimitError("Heads are pushed in local mode only.", "Export the head and upload it.")
    if not HUB_ID.fullmatch(repo) or "/" not in repo:
        what = f"'{repo[:80]}' is not the name of a repository on the Hub."
        raise CheckpointError(what, "Write owner/name: your name there, and a new one.")
    if options.dry_run:
        check_place(repo.partition("/")[2], onnx=False)
        return
    if is_offline():
        what = "This process is offline (HF_HUB_OFFLINE is set)."
        raise CheckpointError(what, "Unset it, or add --dry-run.")
    if not huggingface_hub.get_token():
        raise CheckpointError("There is no token of the Hub on this machine.", _LOG_IN)
    with _hub_errors(repo):
        if huggingface_hub.HfApi().repo_exists(repo) and not options.replace:
            raise CheckpointError(f"{repo} is on the Hub already.", _REPLACE)


def build_publication(
    classifier: Classifier, repo: str, options: PushOptions, source: str
) -> tuple[Publication, tuple[str, ...]]:
    """Return what the card says besides, and notes; the default licence is the base model's."""
    license, language = options.license, tuple(options.language)
    if license and not LICENCE.fullmatch(license):
        what = f"'{license[:60]}' is not a licence of the Hub."
        raise CheckpointError(what, "Write it as in apache-2.0, mit or cc-by-4.0.")
    for code in language:
        if not LANGUAGE.fullmatch(code):
            what = f"'{code[:60]}' is not the code of a language."
            raise CheckpointError(what, "Write it as in en or de.")
    notes = ()
    if not license:
        base = hub_id(classifier.backbone).removeprefix("sentence-transformers/")
        license = next((model.licence for model in MODELS if model.id == base), "")
        stated = f"the licence of its base model, {license}" if license else "no licence"
        notes = (f"Its card states {stated}; --license sets it.",)
    dataset = parse_dataset(source) if source.startswith(PREFIX) else HubDataset(repo="")
    published = Publication(
        repo=repo, license=license, language=language, dataset=dataset.repo,
        dataset_config=dataset.config, dataset_split=dataset.split,
        dataset_revision=dataset.revision,
    )  # fmt: skip
    return published, notes


def upload(folder: Path, repo: str, options: PushOptions) -> tuple[str, str]:
    """Upload a folder to a repository in one commit; return the address and the commit."""
    api, private, replace = huggingface_hub.HfApi(), options.private, options.replace
    with _hub_errors(repo):
        is_new = not (replace and api.repo_exists(repo))
        url = api.create_repo(repo, private=private or None, exist_ok=not is_new)
        try:
            if private and not api.repo_info(repo).private:  # an existing one stays as it is
                what = f"{repo} is public on the Hub, not private: nothing is sent."
                raise CheckpointError(what, "Make it private there, or leave --private out.")
            commit = api.upload_folder(
                repo_id=repo,
                folder_path=folder,
                commit_message="Add a head trained by Head to Head",
                delete_patterns="*" if replace else None,  # old code would not fit the new head
            )
        except BaseException:
            if is_new:  # an empty repository would stop the next push
                with contextlib.suppress(Exception):  # report the first error
                    api.delete_repo(repo)
            raise
    return str(url), commit.oid


@contextlib.contextmanager
def _hub_errors(repo: str) -> Iterator[None]:
    """Turn whatever the client of the Hub raises into a CheckpointError of one sentence."""
    try:
        yield
    except HeadsError:
        raise
    except Exception as error:  # the client has changed its HTTP library more than once
        # If one of several files fails, the response belongs to the cause.
        responses = [getattr(failure, "response", None) for failure in (error, error.__cause__)]
        status = next((response.status_code for response in responses if response is not None), 0)
        if status in (401, 403):
            failure = f"The Hub does not let this token write to {repo} ({status}).", _LOG_IN
        elif status == 409:
            failure = f"{repo} is on the Hub already.", _REPLACE
        elif status:
            failure = f"The Hub did not take {repo} ({status}).", _TRY_LATER
        elif isinstance(error, ValueError):  # the client checks the card before it sends anything
            failure = f"The Hub does not take the card of {repo}.", "Look at it with --dry-run."
        else:
            failure = f"The Hub cannot be reached: {repo} is not sent.", _TRY_LATER
        raise CheckpointError(*failure) from None
