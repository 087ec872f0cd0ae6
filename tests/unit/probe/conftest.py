"""The fake NVIDIA libraries, compiled once, found by the processes that a test starts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "gpu" / "fake"
LIBRARIES = {"nvml.c": "libnvidia-ml.so.1", "cuda.c": "libcuda.so.1"}


@pytest.fixture(scope="session")
def fake_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to make the fake NVIDIA libraries with")
    folder = tmp_path_factory.mktemp("fake-gpu")
    for source, library in LIBRARIES.items():
        command = [compiler, "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(folder / library), str(SOURCES / source)]
        subprocess.run(command, check=True)
    return folder


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
