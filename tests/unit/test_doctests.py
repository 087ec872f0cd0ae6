"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"rayflight": ROOT / "plugins" / "rayflight", "dev": ROOT / "dev", "testbed": ROOT / "testbed"}


def modules() -> list[str]:
    """Names of the modules with examples."""
    return sorted(
        ".".join([package, *file.relative_to(folder).with_suffix("").parts])
        for package, folder in FOLDERS.items()
        for file in folder.rglob("*.py")
        if ">>> " in file.read_text()
    )


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert found.failed == 0
