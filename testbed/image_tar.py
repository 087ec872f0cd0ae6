"""Write one directory tree as a docker-archive that `ctr images import` takes.

Standard library only. May read the tree it is given and write one file; starts no process and knows nothing of Ray.
The layer is streamed into the archive while its digest is computed: nothing is held in memory or written twice.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

BLOCK = 512
LAYER_NAME = "layer.tar"


@dataclass(frozen=True)
class ImageConfig:
    """What a container of the image starts with."""

    tag: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    working_dir: str = "/"


def architecture(machine: str | None = None) -> str:
    """Return this machine's architecture as image registries spell it."""
    spelled = {"x86_64": "amd64", "aarch64": "arm64"}
    name = machine or platform.machine()
    return spelled.get(name, name)


class _HashingWriter(io.RawIOBase):
    """Counts and hashes what passes through on its way into the archive."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self.digest = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self._target.write(view)
        self.digest.update(view)
        self.size += view.nbytes
        return view.nbytes


def write_docker_archive(
    target: Path, root: Path, config: ImageConfig, keep: Callable[[str], bool] | None = None
) -> int:
    """Write the tree below `root` as a one-layer image into `target` and return the size of the layer in bytes.

    `keep` is asked for every path relative to `root`; what it refuses is left out with all that is in it.
    """
    with target.open("wb") as archive:
        archive.write(bytes(BLOCK))  # the layer's header: its size is only known once the layer has passed
        layer = _HashingWriter(archive)
        _write_layer(layer, root, keep)
        end = archive.tell()
        archive.seek(0)
        archive.write(_header(LAYER_NAME, layer.size))
        archive.seek(end)
        archive.write(bytes(-layer.size % BLOCK))
        described = json.dumps(_describe(config, layer.digest.hexdigest())).encode()
        config_name = hashlib.sha256(described).hexdigest() + ".json"
        manifest = [{"Config": config_name, "RepoTags": [config.tag], "Layers": [LAYER_NAME]}]
        _append(archive, config_name, described)
        _append(archive, "manifest.json", json.dumps(manifest).encode())
        archive.write(bytes(2 * BLOCK))
    return layer.size


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    # GNU: a size of 8 GiB and more still fits the one block that was left free.
    return info.tobuf(tarfile.GNU_FORMAT)


def _append(archive: BinaryIO, name: str, data: bytes) -> None:
    archive.write(_header(name, len(data)) + data + bytes(-len(data) % BLOCK))


def _describe(config: ImageConfig, diff_id: str) -> dict[str, object]:
    return {
        "architecture": architecture(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "Env": [f"{name}={value}" for name, value in config.environment.items()],
            "Entrypoint": list(config.entrypoint) or None,
            "Cmd": list(config.command) or None,
            "WorkingDir": config.working_dir,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "rayflight testbed"}],
    }


def _write_layer(layer: _HashingWriter, root: Path, keep: Callable[[str], bool] | None) -> None:
    buffered = io.BufferedWriter(layer, buffer_size=1 << 20)
    with tarfile.open(fileobj=buffered, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar:
        for path in _walk(root, "", keep):
            info = tar.gettarinfo(str(root / path), arcname=path)
            # Whole seconds: fractions would add a PAX header to every file, and .pyc files compare whole seconds.
            info.mtime = int(info.mtime)
            info.uname = info.gname = ""
            if info.isreg():
                with (root / path).open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    buffered.flush()
    buffered.detach()


def _walk(root: Path, below: str, keep: Callable[[str], bool] | None) -> Iterator[str]:
    """Yield every kept path, directories before their content, in an order that does not depend on the disk."""
    with os.scandir(root / below) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{below}/{entry.name}" if below else entry.name
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISSOCK(mode) or (keep is not None and not keep(path)):  # tar knows no sockets
            continue
        yield path
        if stat.S_ISDIR(mode):
            yield from _walk(root, path, keep)
