"""Compiles the fake NVIDIA libraries of ``fake/``; what they answer is steered by a file (``fake/steering.h``)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "fake"
LIBRARIES = {"nvml.c": "libnvidia-ml.so.1", "cuda.c": "libcuda.so.1"}


def compiled(folder: Path) -> Path:
    """The folder, with both libraries in it. Skips the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to make the fake NVIDIA libraries with")
    for source, library in LIBRARIES.items():
        command = [compiler, "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(folder / library), str(SOURCES / source)]
        subprocess.run(command, check=True)
    return folder
