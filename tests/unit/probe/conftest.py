"""The fake NVIDIA libraries, compiled once, found by the processes that a test starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.fake_libraries import compiled


@pytest.fixture(scope="session")
def fake_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("fake-gpu"))


@pytest.fixture
def steer(fake_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``steer("count=1", "hang=cuInit")`` says what the libraries answer."""
    file = tmp_path / "fake-gpu"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_libraries))
    monkeypatch.setenv("FAKE_GPU", str(file))

    def write(*lines: str) -> None:
        file.write_text("".join(f"{line}\n" for line in lines))

    write()
    return write
