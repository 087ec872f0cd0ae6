"""Ray's log files of a local cluster, straight from the disk. Blocking: call from a thread. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from rayflight.backends.base import LogFile
from rayflight.backends.log_choice import is_worth_keeping, rank

_FILES_PER_TREE = 60  # worker-*: two files per process; the newest failures are in the driver log anyway
_BLOCK = 1024 * 1024
_TAIL = 16 * 1024
LOGS = Path("session_latest", "logs")
START_LOG = "start.log"
KEEPER_LOG = "keeper.log"


def files(trees: Iterable[Mapping[str, Any]]) -> list[LogFile]:
    """All that are worth keeping, by tree."""
    found = [LogFile(source="keeper", name=KEEPER_LOG)]
    for tree in trees:
        folder, pod = Path(tree["folder"]), tree["name"]
        if (folder / START_LOG).is_file():
            found.append(LogFile(source=f"tree/{pod}", name=f"{pod}/{START_LOG}"))
        worth = (name for name in _names(folder / LOGS) if is_worth_keeping(name))
        names = sorted(worth, key=lambda name: (rank(name), name))
        found += [LogFile(source=f"ray/{pod}", name=f"{pod}/{name}") for name in names[:_FILES_PER_TREE]]
    return found


def _names(folder: Path) -> list[str]:
    top = [path.name for path in folder.glob("*") if path.is_file()]
    return [*top, *(f"{sub}/{path.name}" for sub in ("jobs", "train") for path in folder.glob(f"{sub}/*"))]


def path_of(log: LogFile, record: Path, trees: Iterable[Mapping[str, Any]]) -> Path:
    """Where that log lies. Raises KeyError for a tree that the cluster does not have."""
    kind, _, pod = log.source.partition("/")
    if kind == "keeper":
        return record / KEEPER_LOG
    folder = Path({tree["name"]: tree["folder"] for tree in trees}[pod])
    name = log.name.partition("/")[2]
    return folder / name if kind == "tree" else folder / LOGS / name


def read_range(path: Path, offset: int, limit: int) -> bytes:
    """Bytes of a file; none where it is not there (yet)."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit)
    except (FileNotFoundError, NotADirectoryError):
        return b""


async def blocks(path: Path) -> AsyncIterator[bytes]:
    """A whole file."""
    offset = 0
    while block := read_range(path, offset, _BLOCK):
        yield block
        offset += len(block)


def tail(path: Path) -> str:
    """The last lines, for a diagnosis."""
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    return read_range(path, max(0, size - _TAIL), _TAIL).decode(errors="replace")


def find(name: str, trees: Iterable[Mapping[str, Any]]) -> Path | None:
    """The log file of this name in whichever tree wrote it.

    A driver runs on one Ray node only, but the head (the first tree) writes a line into a file of the same name before
    it sends the driver elsewhere: the others come first.
    """
    paths = (Path(tree["folder"]) / LOGS / Path(name).name for tree in reversed(list(trees)))
    return next((path for path in paths if path.is_file()), None)
