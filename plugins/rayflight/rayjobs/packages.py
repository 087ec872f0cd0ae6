"""A folder of scripts as a Ray package: the same content always makes the same bytes and the same name.

Reads the disk (call it from a thread where a loop runs); sends nothing. The name carries the digest of the content, so
uploading is idempotent and two runs of one version share one package.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from rayflight.errors import InvalidSpec

MAX_BYTES = 100 * 1024**2  # Ray's dashboard refuses larger bodies (DASHBOARD_CLIENT_MAX_SIZE)
ALWAYS_EXCLUDED = (".git/", "__pycache__/", "*.pyc", ".venv/", ".mypy_cache/", ".ruff_cache/", ".pytest_cache/")
IGNORE_FILES = (".gitignore", ".rayignore")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A packed folder: ``name`` is ``_ray_pkg_<digest>.zip``."""

    name: str
    archive: bytes
    files: tuple[str, ...]

    @property
    def uri(self) -> str:
        """Where Ray keeps it once it is uploaded."""
        return f"gcs://{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    name: str
    path: Path
    size: int
    executable: bool


def pack(folder: Path, *, excludes: Sequence[str] = (), prefix: str = "", max_bytes: int = MAX_BYTES) -> Package:
    """Pack what the ignore files let through. ``prefix`` is put before every name. Raises InvalidSpec."""
    files = _chosen(folder, excludes, max_bytes)
    package = _write(files, prefix)
    _refuse_large(folder, len(package.archive), files, max_bytes)
    return package


def check(folder: Path) -> None:
    """Raise what ``pack`` would raise of a folder that is missing, empty or too large; reads no content."""
    _chosen(folder, (), MAX_BYTES)


def _chosen(folder: Path, excludes: Sequence[str], max_bytes: int) -> list[_File]:
    if not folder.is_dir():
        raise InvalidSpec(
            "The working directory is missing:" if not folder.exists() else "The working directory is no folder:",
            which=str(folder),
            why="" if folder.is_absolute() else f"a relative one is looked up from {Path.cwd()}",
            next_step="name the folder that holds the script in `working_dir`; nothing was created",
        )
    files = sorted(_files(folder.resolve(), (*ALWAYS_EXCLUDED, *excludes)), key=lambda item: item.name)
    _refuse_empty(folder, files)
    _refuse_large(folder, sum(item.size for item in files), files, max_bytes)
    return files


def _files(root: Path, excludes: Sequence[str]) -> Iterator[_File]:
    specs: dict[Path, list[tuple[Path, GitIgnoreSpec]]] = {root: [(root, GitIgnoreSpec.from_lines(excludes))]}
    seen = {root}
    for here, folders, names in os.walk(root, followlinks=True):
        parent = Path(here)
        rules = specs[parent] = [*specs[parent], *_own_rules(parent, names)]
        folders[:] = sorted(name for name in folders if not _ignored(parent / name, rules, folder=True))
        for name in list(folders):
            target = (parent / name).resolve()
            if target in seen:  # a link that leads back: once is enough
                folders.remove(name)
            seen.add(target)
            specs[parent / name] = rules
        yield from (_file(root, parent / name) for name in names if not _ignored(parent / name, rules, folder=False))


def _own_rules(parent: Path, names: Sequence[str]) -> list[tuple[Path, GitIgnoreSpec]]:
    return [
        (parent, GitIgnoreSpec.from_lines((parent / name).read_text(errors="replace").splitlines()))
        for name in IGNORE_FILES
        if name in names
    ]


def _ignored(path: Path, rules: Sequence[tuple[Path, GitIgnoreSpec]], *, folder: bool) -> bool:
    return any(spec.match_file(str(path.relative_to(base)) + ("/" if folder else "")) for base, spec in rules)


def _file(root: Path, path: Path) -> _File:
    try:
        status = path.stat()
    except OSError as error:
        raise InvalidSpec(
            "A file of the working directory cannot be read:",
            which=str(path),
            why=error.strerror or str(error),
            next_step=f"repair or remove it, or name it in {root / '.rayignore'}",
        ) from error
    return _File(
        name=path.relative_to(root).as_posix(),
        path=path,
        size=status.st_size,
        executable=bool(status.st_mode & 0o100),
    )


def _write(files: Sequence[_File], prefix: str) -> Package:
    content, buffer = hashlib.sha256(), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for item in files:
            entry = zipfile.ZipInfo(prefix + item.name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if item.executable else 0o100644) << 16
            data = item.path.read_bytes()
            archive.writestr(entry, data)
            content.update(f"{entry.filename}\0{entry.external_attr}\0{len(data)}\0".encode() + data)
    return Package(
        name=f"_ray_pkg_{content.hexdigest()[:40]}.zip",
        archive=buffer.getvalue(),
        files=tuple(prefix + item.name for item in files),
    )


def _refuse_empty(folder: Path, files: Sequence[_File]) -> None:
    if not files:
        step = "put the training script there, or correct the ignore files"
        raise InvalidSpec("The working directory has no file to send:", which=str(folder), next_step=step)


def _refuse_large(folder: Path, size: int, files: Sequence[_File], max_bytes: int) -> None:
    if size <= max_bytes:
        return
    largest = sorted(files, key=lambda item: -item.size)[:3]
    names = ", ".join(f"{item.name} ({_mib(item.size)})" for item in largest)
    raise InvalidSpec(
        "The working directory is too large:",
        which=str(folder),
        why=f"{_mib(size)} in {len(files)} files, the limit is {_mib(max_bytes)}; the largest are {names}",
        next_step=f"name what the training does not need in {folder / '.rayignore'}, and keep data on storage",
    )


def _mib(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"
