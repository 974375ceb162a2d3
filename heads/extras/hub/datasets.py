"""Read a data set of the Hugging Face Hub as a `Table`: its Parquet files, never its script.

The Hub converts public data sets to Parquet on the branch `refs/convert/parquet`, in folders by
configuration and split. Else the data set's own Parquet files are read, named as by `push_to_hub`.
"""

import glob
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heads.checked_files import read_json, write_json
from heads.data.column_names import PARTS
from heads.data.columns import is_named
from heads.data.files import SPLIT
from heads.data.formats.parquet_files import read_columnar
from heads.data.table import Table, count, short
from heads.errors import DataError, LimitError, did_you_mean
from heads.hub import HUB_ID, MARGIN, TIMEOUT, asking, free_bytes, repo_folder, size
from heads.settings import current_limits, is_offline

CONVERTED = "refs/convert/parquet"
PREFIX = "hub:"  # of the name of a data set
WHOLE = "default"  # the name of a configuration where there is but one
DATASET = re.compile(
    r"(?P<repo>[^@:]+)(?:@(?P<revision>[0-9A-Za-z._/-]+))?"
    r"(?::(?P<config>[^:]+))?(?::(?P<split>[^:]+))?"
)
MOST_FILES = 1_000
_LATER = "Try again once connected, or give a file."
_UNLISTED = "Read offline: whether the Hub has more of its files or splits is not known here."
_NUMBERED = re.compile(r"(.+?-)(\d+)(-of-(\d+))(?:-[0-9a-f]+)?")  # a stem: one of so many files
_USES = ("train", "validation", "test")
_UNKNOWN = frozenset(("", "-1", "-1.0"))  # how a test set says that its labels are kept secret
Files = Sequence[tuple[str, str, str]]  # each with its configuration and split


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """The name of a data set of the Hub, such as hub:nyu-mll/glue:sst2."""

    repo: str  # its id, owner/name
    config: str = ""  # one of its configurations
    split: str = ""  # one of its splits; "" for all that are called train, validation or test
    revision: str = ""  # a commit; "" for the newest

    def __str__(self) -> str:
        repo = f"{self.repo}@{self.revision}" if self.revision else self.repo
        config = self.config or (WHOLE if self.split else "")
        return PREFIX + ":".join(filter(None, (repo, config, self.split)))

    @property
    def title(self) -> str:
        """A short name: that of the data set, with its configuration and split where they count."""
        parts = (self.repo, "" if self.config == WHOLE else self.config, self.split)
        return ":".join(filter(None, parts))


def parse_dataset(text: str) -> HubDataset:
    """Parse the name of a data set.

    >>> str(parse_dataset("hub:nyu-mll/glue:sst2:train"))
    'hub:nyu-mll/glue:sst2:train'

    Raises:
        DataError: It is not the name of one.
    """
    match = DATASET.fullmatch(text.removeprefix(PREFIX).strip())
    names = match.groupdict("") if match else {"repo": "", "revision": ""}
    if not HUB_ID.fullmatch(names["repo"]) or ".." in names["revision"]:
        hint = "Write hub:owner/name, hub:owner/name:config or hub:owner/name:config:split."
        raise DataError(f"'{text[:80]}' names no data set of the Hub.", hint)
    return HubDataset(**names)


def read_hub(text: str) -> Table:
    """Download a data set's Parquet files and read them; its splits become a column called split.

    Args:
        text: Such as hub:owner/name, hub:owner/name:config, hub:owner/name:config:split, each also
            with @revision behind the name.

    Raises:
        DataError: There is no such data set, or it cannot be reached or read.
        LimitError: It is too large, or the process is public.
    """
    dataset = parse_dataset(text)
    if current_limits().public:
        hint = "Download it and send it as a file."
        raise LimitError("Data sets of the Hub are for local use.", hint)
    with asking(dataset.repo, DataError, thing="data set", later=_LATER):
        listing = _list_saved(dataset) if is_offline() else _list_remote(dataset)
    dataset, files = _select_files(dataset, listing)
    if listing.folder:
        _check_whole(dataset, files, listing, listing.folder)
    else:
        _check_size(dataset, files, listing)
    folder = listing.folder or _download(dataset, files, listing)
    parts = [] if dataset.split else sorted({part for _, _, part in files})
    note = f"Read from the Hub: {dataset.title} at {dataset.revision[:7]}, as Parquet."
    classes = listing.classes.get(dataset.config)
    if not classes and len(listing.classes) == 1:  # its card may not name the only configuration
        (classes,) = listing.classes.values()
    paths = [(folder / file, split) for file, _, split in files]
    column = SPLIT if len(parts) > 1 else ""
    table = read_columnar(paths, dataset.title, note, column, classes or {})
    left = {part for _, config, part in listing.parts if config == dataset.config} - {*parts}
    is_left = left and not dataset.split
    notes = [f"Left out: {', '.join(map(short, sorted(left)))}."] if is_left else []
    notes += [_UNLISTED] * (not listing.sizes)
    table = replace(table, notes=(*table.notes, *notes), source=str(dataset))
    return _score_on_validation(table) if len(parts) > 1 else table


# --- What there is: files, each of a configuration and a split.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """The files of a data set."""

    revision: str  # the commit
    branch: str  # a branch, or that commit
    parts: Files  # each Parquet file, its configuration and its split
    # the bytes of each file; empty if only files without a note are on this machine
    sizes: Mapping[str, int | None]
    # the names of classes, by configuration and column
    classes: Mapping[str, Mapping[str, Sequence[str]]]
    folder: Path | None = None  # the folder of the files, if they are on this machine already


def _list_remote(dataset: HubDataset) -> _Listing:
    """Ask the Hub for names and sizes of files, and for the classes that the card names."""
    import huggingface_hub
    from huggingface_hub.errors import RevisionNotFoundError

    api, settings = huggingface_hub.HfApi(), {"files_metadata": True, "timeout": TIMEOUT}
    info = api.dataset_info(dataset.repo, revision=dataset.revision or None, **settings)
    classes, branch = dict(_iter_classes(info.card_data)), dataset.revision or "main"
    if not dataset.revision:  # private ones are not converted: their own Parquet files may do
        with suppress(RevisionNotFoundError):
            info = api.dataset_info(dataset.repo, revision=CONVERTED, **settings)
            branch = CONVERTED
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    options = {"parts": _parse_paths(sizes), "sizes": sizes, "classes": classes}
    return _Listing(revision=info.sha or "", branch=branch, **options)


def _list_saved(dataset: HubDataset) -> _Listing:
    """List what is on this machine, or what the Hub listed when it was downloaded."""
    home = repo_folder(dataset.repo, "dataset")
    for branch in [dataset.revision] if dataset.revision else [CONVERTED, "main"]:
        ref = home / "refs" / branch
        folder = home / "snapshots" / (ref.read_text("utf-8") if ref.is_file() else branch)
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")]
        if names:  # the client itself takes a snapshot for none, where not all files were fetched
            try:
                note = read_json(_note_path(dataset.repo, folder.name))
                sizes, classes = dict(note["sizes"]), dict(note["classes"])
            except (OSError, ValueError, KeyError, TypeError):  # another program's download
                sizes, classes = {}, {}
            options = {"parts": _parse_paths(sizes or _add_numbered(names)), "sizes": sizes}
            options |= {"classes": classes, "folder": folder}
            return _Listing(revision=folder.name, branch=branch, **options)
    what = f"{dataset.repo} is not on this machine, and this process is told to stay offline"
    raise DataError(f"{what} (HF_HUB_OFFLINE).", "Unset it while connected.")


def _note_path(repo: str, revision: str) -> Path:
    return repo_folder(repo, "dataset") / f"heads-{revision}.json"


def _add_numbered(names: Collection[str]) -> list[str]:
    """Add the files that must stand beside these by their numbers.

    >>> _add_numbered(["train-00001-of-00002.parquet", "test.parquet"])
    ['test.parquet', 'train-00000-of-00002.parquet', 'train-00001-of-00002.parquet']
    """
    numbers = defaultdict[tuple[str, str, int, int], set[int]](set)
    for name in names:
        if match := _NUMBERED.fullmatch(name.removesuffix(".parquet")):
            numbers[match[1], match[3], int(match[4]), len(match[2])].add(int(match[2]))
    others = [
        f"{before}{at:0{digits}}{of}.parquet"
        for (before, of, total, digits), here in numbers.items()
        for at in range(min(total, MOST_FILES))
        if at not in here
    ]
    return sorted([*names, *others])


def _parse_paths(names: Collection[str]) -> Files:
    return [
        (name, *part)
        for name in sorted(names)
        if name.endswith(".parquet") and ".." not in name.split("/") and (part := _parse_path(name))
    ]


def _parse_path(name: str) -> tuple[str, str] | None:
    """Return the configuration and the split of a file.

    >>> _parse_path("sst2/train/0000.parquet"), _parse_path("data/test-00000-of-00001.parquet")
    (('sst2', 'train'), ('default', 'test'))
    >>> _parse_path("plain/unsupervised-00000-of-00001.parquet"), _parse_path("extra.parquet")
    (('plain', 'unsupervised'), None)
    """
    *folders, file = name.split("/")
    stem = file.removesuffix(".parquet")
    if stem.isdecimal() and len(folders) == 2:
        return folders[0], folders[1].removeprefix("partial-")
    numbered = _NUMBERED.fullmatch(stem)
    split = numbered[1][:-1] if numbered else stem if stem.lower() in PARTS else ""
    config = folders[-1] if folders and folders != ["data"] else WHOLE
    return (config, split) if split else None


def _iter_classes(card: Any) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield each configuration of a card with the names of classes, by column."""
    infos = (card.to_dict() if card is not None else {}).get("dataset_info") or []
    for info in infos if isinstance(infos, list) else [infos]:
        if isinstance(info, dict):
            features = info.get("features")
            names = dict(_iter_features(features if isinstance(features, list) else []))
            yield str(info.get("config_name", WHOLE)), names


def _iter_features(features: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of classes among features as a card writes them: a number, and its name."""
    for feature in features:
        kind = feature.get("dtype") if isinstance(feature, dict) else None
        names = kind.get("class_label", {}).get("names") if isinstance(kind, dict) else None
        if isinstance(names, dict):
            by_number = {str(number): name for number, name in names.items()}
            numbers = [str(number) for number in range(len(names))]
            names = [by_number[n] for n in numbers] if {*by_number} == {*numbers} else None
        if isinstance(names, list):
            yield str(feature.get("name")), [*map(str, names)]


# --- Which of it is meant, and how much that is.


def _select_files(dataset: HubDataset, listing: _Listing) -> tuple[HubDataset, Files]:
    """Return the configuration and split that are meant, with their files."""
    repo, config, split = dataset.repo, dataset.config, dataset.split
    configs = list(dict.fromkeys(config for _, config, _ in listing.parts))
    if not configs:
        what = f"{repo} has no Parquet files on the Hub, and a script of its own is never run."
        raise DataError(what, "Download it and give a file.")
    only = configs[0] if len(configs) == 1 else WHOLE
    if config and config not in configs and not split and only in configs:
        config, split = only, config  # as in hub:owner/name:train
    if not config and only not in configs:
        what = f"{repo} has {len(configs)} configurations: {_join_first(configs)}."
        raise DataError(what, f"Name one: {PREFIX}{repo}:{configs[0]}.")
    config = config or only
    if config not in configs:
        what = f"{repo} has no configuration '{short(config)}'."
        raise DataError(what, did_you_mean(config, configs))
    splits = list(dict.fromkeys(part for _, own, part in listing.parts if own == config))
    # Where none is named, those that say for what they are, or the only one.
    usual = [name for name in splits if name.lower() in PARTS] or splits * (len(splits) == 1)
    wanted = [split] if split else usual
    if not wanted or not set(wanted) <= set(splits):
        named = f"'{short(split)}'" if split else "called train, validation or test"
        what = f"{repo} has no split {named}; it has {_join_first(splits)}."
        raise DataError(what, f"Name one: {PREFIX}{repo}:{config}:{splits[0]}.")
    dataset = replace(dataset, config=config, split=split, revision=listing.revision)
    return dataset, [part for part in listing.parts if part[1] == config and part[2] in wanted]


def _join_first(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(short, names[:most])) + more


def _check_whole(dataset: HubDataset, files: Files, listing: _Listing, folder: Path) -> None:
    """Refuse to read a part of what is meant as if it were all of it."""
    lacking = {
        name: part
        for name, _, part in files
        if not (path := folder / name).is_file()
        or listing.sizes.get(name) not in (None, path.stat().st_size)
    }
    if not lacking:
        return
    parts = {part for *_, part in files}
    whole = sorted(parts - {*lacking.values()})
    what = f"{len(lacking)} of the {count(len(files), 'file')} of {dataset.title} are not on this "
    what += f"machine ({_join_first(sorted(lacking), 3)}), and this process is told to stay offline"
    hint = "Unset it while connected"
    if whole:
        hint += f", or name a split that is here: {replace(dataset, split=whole[0], revision='')}"
    raise DataError(f"{what} (HF_HUB_OFFLINE).", f"{hint}.")


def _check_size(dataset: HubDataset, files: Files, listing: _Listing) -> None:
    limits = current_limits()
    sizes = [listing.sizes[name] for name, _, _ in files]
    known = [n for n in sizes if isinstance(n, int) and n >= 0]
    if len(known) < len(sizes):
        what = f"The Hub does not say how large the files of {dataset.title} are."
        raise DataError(what, "Download it and give a file.")
    total = sum(known)
    if len(files) > MOST_FILES or total > limits.upload_bytes:
        what = f"{dataset.title} is a download of {size(total)} in {count(len(files), 'file')}; "
        what += f"this place reads {size(limits.upload_bytes)} in {MOST_FILES:,} at most."
        raise LimitError(what, "Name a smaller configuration, or one split.")
    if free_bytes() < total + MARGIN:
        what = f"There is no room on this disk for {dataset.title}, a download of {size(total)}."
        raise DataError(what, "Make room, or name a smaller one.")


def _download(dataset: HubDataset, files: Files, listing: _Listing) -> Path:
    """Download some files of a data set into the Hub's cache; return the folder that holds them."""
    import huggingface_hub

    with asking(dataset.repo, DataError, thing="data set", later=_LATER):
        folder = huggingface_hub.snapshot_download(
            dataset.repo,
            repo_type="dataset",
            revision=listing.branch,  # by its name it is found again without a network
            allow_patterns=[glob.escape(name) for name, _, _ in files],
        )
    if Path(folder).name != dataset.revision:
        raise DataError(f"{dataset.repo} has changed while it was asked for.", "Try again.")
    with suppress(OSError):
        note = {"sizes": listing.sizes, "classes": listing.classes}
        write_json(_note_path(dataset.repo, dataset.revision), note)
    return Path(folder)


def _score_on_validation(table: Table) -> Table:
    """Test on the validation rows where all test labels are -1, as in GLUE and SuperGLUE."""
    at = len(table.columns) - 1
    rows = {part: [row for row in table.rows if PARTS[row[at].lower()] == part] for part in _USES}
    secret = [
        place
        for place, name in enumerate(table.columns[:-1])
        if rows["test"]
        and is_named(name)
        and all(row[place] in _UNKNOWN for row in rows["test"])
        and not all(row[place] in _UNKNOWN for row in rows["train"])
    ]
    if not secret or not rows["validation"]:
        return table
    numbered = [
        (line, [*row[:-1], "test" if PARTS[row[at].lower()] == "validation" else row[at]])
        for line, row in zip(table.lines, table.rows, strict=True)
        if PARTS[row[at].lower()] != "test"
    ]
    note = f"The labels of the test ({count(len(rows['test']), 'row')}) are not told, so heads are "
    note += "scored on its validation rows."
    lines, kept = zip(*numbered, strict=True)
    return replace(table, rows=kept, lines=lines, notes=(*table.notes, note))
