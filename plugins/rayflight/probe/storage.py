"""Does every rank write to, and read from, the same place? A folder, or a URL that pyarrow knows (s3://, gs://)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_FOLDER = ".rayflight-probe"


class Place:
    """One folder of this probe below ``path``."""

    def __init__(self, path: str, nonce: str) -> None:
        self.path = path
        self._remote: Any = None
        if "://" in path and not path.startswith("file://"):
            from pyarrow import fs  # noqa: PLC0415 - only for URLs; Ray Data and Train bring it

            self._remote, base = fs.FileSystem.from_uri(path)
            self._folder = f"{base.rstrip('/')}/{_FOLDER}/{nonce}"
        else:
            self._folder = str(Path(path.removeprefix("file://")) / _FOLDER / nonce)

    def write(self, rank: int, text: str) -> None:
        """Write this rank's file."""
        if self._remote is None:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            Path(self._folder, str(rank)).write_text(text)
            return
        self._remote.create_dir(self._folder, recursive=True)
        with self._remote.open_output_stream(f"{self._folder}/{rank}") as stream:
            stream.write(text.encode())

    def read(self, rank: int) -> str:
        """Read a rank's file. Raises FileNotFoundError."""
        if self._remote is None:
            return Path(self._folder, str(rank)).read_text()
        with self._remote.open_input_stream(f"{self._folder}/{rank}") as stream:
            return bytes(stream.read()).decode()

    def clear(self, world_size: int) -> None:
        """Remove what the probe wrote."""
        if self._remote is not None:
            self._remote.delete_dir(self._folder)
            return
        for rank in range(world_size):
            Path(self._folder, str(rank)).unlink(missing_ok=True)
        Path(self._folder).rmdir()
