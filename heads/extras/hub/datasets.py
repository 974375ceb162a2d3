"""A data set of the Hugging Face Hub to a `Table`: its Parquet files, never a script of its own.

The Hub keeps every public data set as Parquet on a branch of its own, `refs/convert/parquet`, one
folder a configuration and in it one a split. Where it does not, the Parquet files of the data set
itself are read, by the names that `push_to_hub` gives them.
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
from heads.data.columns import is_named
from heads.data.files import SPLIT
from heads.data.formats.parquet_files import read_columnar
from heads.data.table import PARTS, Table, count, short
from heads.errors import DataError, LimitError, did_you_mean
from heads.hub import (
    MARGIN,
    PREFIX,
    TIMEOUT,
    WHOLE,
    HubDataset,
    asking,
    free_bytes,
    parse_dataset,
    repo_folder,
    size,
)
from heads.settings import Limits, is_offline

CONVERTED = "refs/convert/parquet"
MOST_FILES = 1_000
_LATER = "Try again once connected, or give a file."
_UNLISTED = "Read offline: whether the Hub has more of its files or splits is not known here."
_NUMBERED = re.compile(r"(.+?-)(\d+)(-of-(\d+))(?:-[0-9a-f]+)?")  # a stem: one of so many files
_USES = ("train", "validation", "test")
_UNKNOWN = frozenset(("", "-1", "-1.0"))  # how a test set says that its labels are kept secret


def read_hub(text: str, limits: Limits) -> Table:
    """Downloads a data set's Parquet files and reads them; its splits become a column called split.

    Args:
        text: Such as hub:owner/name, hub:owner/name:config, hub:owner/name:config:split, each also
            with @revision behind the name.

    Raises:
        DataError: There is no such data set, or it cannot be reached or read.
        LimitError: It holds more than this place allows.
    """
    asked = parse_dataset(text)
    if limits.public:
        hint = "Download it and send it as a file."
        raise LimitError("Data sets of the Hub are for local use.", hint)
    with asking(asked.repo, DataError, thing="data set", later=_LATER):
        listed = _kept(asked) if is_offline() else _listed(asked)
    found, files = _chosen(asked, listed)
    if listed.folder:
        _check_whole(found, files, listed, listed.folder)
        folder = listed.folder
    else:
        _check_size(found, files, listed, limits)
        folder = _downloaded(found, files, listed)
    parts = [] if found.split else sorted({part for _, _, part in files})
    note = f"Read from the Hub: {found.title} at {found.revision[:7]}, as Parquet."
    classes = listed.classes.get(found.config)
    if not classes and len(listed.classes) == 1:  # its card may not name the only configuration
        (classes,) = listed.classes.values()
    table = read_columnar(
        [(folder / file, split) for file, _, split in files],
        found.title,
        limits,
        note,
        SPLIT if len(parts) > 1 else "",
        classes or {},
    )
    left = sorted({part for _, config, part in listed.parts if config == found.config} - {*parts})
    notes = [f"Left out: {', '.join(map(short, left))}."] if left and not found.split else []
    notes += [_UNLISTED] * (not listed.sizes)
    table = replace(table, notes=(*table.notes, *notes), source=str(found))
    return _scored_on_labels(table) if len(parts) > 1 else table


# --- What there is: files, each of a configuration and a split.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """What there is of a data set.

    Attributes:
        revision: The commit.
        branch: What was asked for: a branch, or that commit.
        parts: Each Parquet file, its configuration and its split.
        sizes: The bytes of each; nothing where they are here, and nobody has noted what there is.
        classes: Of each configuration the names of classes, by column.
        folder: Where the files lie, if they are here already.
    """

    revision: str
    branch: str
    parts: Sequence[tuple[str, str, str]]
    sizes: Mapping[str, int | None]
    classes: Mapping[str, Mapping[str, Sequence[str]]]
    folder: Path | None = None


def _listed(asked: HubDataset) -> _Listing:
    """Asks the Hub what there is: no more than names, sizes and what its card says."""
    import huggingface_hub
    from huggingface_hub.errors import RevisionNotFoundError

    api, settings = huggingface_hub.HfApi(), {"files_metadata": True, "timeout": TIMEOUT}
    about = api.dataset_info(asked.repo, revision=asked.revision or None, **settings)
    info, branch = about, asked.revision or "main"
    if not asked.revision:
        try:
            info, branch = api.dataset_info(asked.repo, revision=CONVERTED, **settings), CONVERTED
        except RevisionNotFoundError:  # as of private ones: their own Parquet files may do
            branch = "main"
    sizes = {one.rfilename: one.size for one in info.siblings or ()}
    classes = dict(_classes(about.card_data))
    return _Listing(
        revision=info.sha or "", branch=branch, parts=_parts(sizes), sizes=sizes, classes=classes
    )


def _kept(asked: HubDataset) -> _Listing:
    """What is on this machine of a data set, where the network must not be used.

    That is what the Hub has listed when it was downloaded, whether all of it is here or not; of
    what another program has downloaded, what lies here, and what its numbers tell of.
    """
    home = repo_folder(asked.repo, "dataset")
    for branch in [asked.revision] if asked.revision else [CONVERTED, "main"]:
        ref = home / "refs" / branch
        folder = home / "snapshots" / (ref.read_text("utf-8") if ref.is_file() else branch)
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")]
        if names:  # the client itself takes a snapshot for none, where not all files were fetched
            sizes, classes = _noted(_note_of(asked.repo, folder.name))
            return _Listing(
                revision=folder.name,
                branch=branch,
                parts=_parts(sizes or _told_of(names)),
                sizes=sizes,
                classes=classes,
                folder=folder,
            )
    what = f"{asked.repo} is not on this machine, and this process is told to stay offline"
    raise DataError(f"{what} (HF_HUB_OFFLINE).", "Unset it while connected.")


def _note_of(repo: str, revision: str) -> Path:
    """The file that says what the Hub has listed, beside what was downloaded of it."""
    return repo_folder(repo, "dataset") / f"heads-{revision}.json"


def _noted(path: Path) -> tuple[dict[str, int | None], dict[str, Any]]:
    """The sizes of files and the names of classes that a note holds, or nothing."""
    try:
        note = read_json(path)
        return dict(note["sizes"]), dict(note["classes"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}, {}


def _told_of(names: Collection[str]) -> list[str]:
    """Files, and those that must stand beside them by their numbers.

    >>> _told_of(["train-00001-of-00002.parquet", "test.parquet"])
    ['test.parquet', 'train-00000-of-00002.parquet', 'train-00001-of-00002.parquet']
    """
    numbers = defaultdict[tuple[str, str, int, int], set[int]](set)
    for name in names:
        if one := _NUMBERED.fullmatch(name.removesuffix(".parquet")):
            numbers[one[1], one[3], int(one[4]), len(one[2])].add(int(one[2]))
    others = [
        f"{before}{at:0{digits}}{of}.parquet"
        for (before, of, total, digits), here in numbers.items()
        for at in range(min(total, MOST_FILES))
        if at not in here
    ]
    return sorted([*names, *others])


def _parts(names: Collection[str]) -> list[tuple[str, str, str]]:
    """Of each Parquet file its configuration and its split, as its path says them."""
    return [
        (name, *found)
        for name in sorted(names)
        if name.endswith(".parquet") and ".." not in name.split("/") and (found := _part(name))
    ]


def _part(name: str) -> tuple[str, str] | None:
    """The configuration and the split of a file.

    >>> _part("sst2/train/0000.parquet"), _part("data/test-00000-of-00001.parquet")
    (('sst2', 'train'), ('default', 'test'))
    >>> _part("plain_text/unsupervised-00000-of-00001.parquet"), _part("extra.parquet")
    (('plain_text', 'unsupervised'), None)
    """
    *folders, file = name.split("/")
    stem = file.removesuffix(".parquet")
    if stem.isdecimal() and len(folders) == 2:
        return folders[0], folders[1].removeprefix("partial-")
    numbered = _NUMBERED.fullmatch(stem)
    split = numbered[1][:-1] if numbered else stem if stem.lower() in PARTS else ""
    config = folders[-1] if folders and folders != ["data"] else WHOLE
    return (config, split) if split else None


def _classes(card: Any) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """The names of classes that a card tells of, for each configuration."""
    about = (card.to_dict() if card is not None else {}).get("dataset_info") or []
    for one in about if isinstance(about, list) else [about]:
        if isinstance(one, dict):
            features = one.get("features")
            found = dict(_of_features(features if isinstance(features, list) else []))
            yield str(one.get("config_name", WHOLE)), found


def _of_features(features: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """The names of classes among features as a card writes them: a number, and its name."""
    for one in features:
        kind = one.get("dtype") if isinstance(one, dict) else None
        names = kind.get("class_label", {}).get("names") if isinstance(kind, dict) else None
        if isinstance(names, dict) and sorted(map(str, names)) == sorted(
            map(str, range(len(names)))
        ):
            of = {str(number): str(name) for number, name in names.items()}
            yield str(one.get("name")), [of[str(number)] for number in range(len(of))]
        elif isinstance(names, list):
            yield str(one.get("name")), [*map(str, names)]


# --- Which of it is meant, and how much that is.


def _chosen(asked: HubDataset, listed: _Listing) -> tuple[HubDataset, list[tuple[str, str, str]]]:
    """The configuration and split that are meant, with their files."""
    configs = list(dict.fromkeys(config for _, config, _ in listed.parts))
    if not configs:
        what = (
            f"{asked.repo} has no Parquet files on the Hub, and a script of its own is never run."
        )
        raise DataError(what, "Download it and give a file.")
    config, split = asked.config, asked.split
    only = configs[0] if len(configs) == 1 else WHOLE
    if config and config not in configs and not split and only in configs:
        config, split = only, config  # as in hub:owner/name:train
    if not config and only not in configs:
        what = f"{asked.repo} has {len(configs)} configurations: {_some(configs)}."
        raise DataError(what, f"Name one: {PREFIX}{asked.repo}:{configs[0]}.")
    config = config or only
    if config not in configs:
        what = f"{asked.repo} has no configuration '{short(config)}'."
        raise DataError(what, did_you_mean(config, configs))
    splits = list(dict.fromkeys(part for _, own, part in listed.parts if own == config))
    # Where none is named, those that say for what they are, or the only one.
    usual = [name for name in splits if name.lower() in PARTS] or splits * (len(splits) == 1)
    wanted = [split] if split else usual
    if not wanted or not set(wanted) <= set(splits):
        said = (
            f"no split '{short(split)}'" if split else "no split called train, validation or test"
        )
        what = f"{asked.repo} has {said}; it has {_some(splits)}."
        raise DataError(what, f"Name one: {PREFIX}{asked.repo}:{config}:{splits[0]}.")
    found = replace(asked, config=config, split=split, revision=listed.revision)
    return found, [one for one in listed.parts if one[1] == config and one[2] in wanted]


def _some(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(short, names[:most])) + more


def _check_whole(
    found: HubDataset, files: Sequence[tuple[str, str, str]], listed: _Listing, folder: Path
) -> None:
    """Refuses to read a part of what is meant as if it were all of it."""
    lacking = {
        name: part
        for name, _, part in files
        if not (place := folder / name).is_file()
        or listed.sizes.get(name) not in (None, place.stat().st_size)
    }
    if not lacking:
        return
    parts = {part for *_, part in files}
    whole = sorted(parts - {*lacking.values()})
    what = f"{len(lacking)} of the {count(len(files), 'file')} of {found.title} are not on this "
    what += f"machine ({_some(sorted(lacking), 3)}), and this process is told to stay offline"
    hint = "Unset it while connected"
    if whole:
        hint += f", or name a split that is here: {replace(found, split=whole[0], revision='')}"
    raise DataError(f"{what} (HF_HUB_OFFLINE).", f"{hint}.")


def _check_size(
    found: HubDataset, files: Sequence[tuple[str, str, str]], listed: _Listing, limits: Limits
) -> None:
    """Refuses a download that is too large, before it begins."""
    sizes = [listed.sizes[name] for name, _, _ in files]
    known = [one for one in sizes if isinstance(one, int) and one >= 0]
    if len(known) < len(sizes):
        what = f"The Hub does not say how large the files of {found.title} are."
        raise DataError(what, "Download it and give a file.")
    total = sum(known)
    if len(files) > MOST_FILES or total > limits.upload_bytes:
        what = f"{found.title} is a download of {size(total)} in {count(len(files), 'file')}; "
        what += f"this place reads {size(limits.upload_bytes)} in {MOST_FILES:,} at most."
        raise LimitError(what, "Name a smaller configuration, or one split.")
    if free_bytes() < total + MARGIN:
        what = f"There is no room on this disk for {found.title}, a download of {size(total)}."
        raise DataError(what, "Make room, or name a smaller one.")


def _downloaded(found: HubDataset, files: Sequence[tuple[str, str, str]], listed: _Listing) -> Path:
    """Downloads some files of a data set into the Hub's cache; the folder that holds them."""
    import huggingface_hub

    with asking(found.repo, DataError, thing="data set", later=_LATER):
        folder = huggingface_hub.snapshot_download(
            found.repo,
            repo_type="dataset",
            revision=listed.branch,  # by its name it is found again without a network
            allow_patterns=[glob.escape(name) for name, _, _ in files],
        )
    if Path(folder).name != found.revision:
        raise DataError(f"{found.repo} has changed while it was asked for.", "Try again.")
    with suppress(OSError):
        note = {"sizes": listed.sizes, "classes": listed.classes}
        write_json(_note_of(found.repo, found.revision), note)
    return Path(folder)


def _scored_on_labels(table: Table) -> Table:
    """Takes the validation rows for testing, where the labels of the test rows are kept secret.

    So it is in GLUE and SuperGLUE: every label of the test is -1.
    """
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
