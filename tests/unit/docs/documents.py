"""Reads the documents: their tables and their code blocks."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def tables(name: str) -> dict[str, dict[str, list[str]]]:
    """Headings like ``### `Model` `` -> first cell -> the other cells of its table."""
    found: dict[str, dict[str, list[str]]] = {}
    for heading, body in re.findall(
        r"^#+ `(\w+)`\n(.*?)(?=^#|\Z)", (DOCS / name).read_text(), re.MULTILINE | re.DOTALL
    ):
        rows = [row.strip("|").split(" | ") for row in re.findall(r"^\|.*\|$", body, re.MULTILINE)]
        found[heading] = {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in rows[2:]}
    return found


def blocks(name: str, language: str) -> list[str]:
    """Code blocks of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(), re.MULTILINE | re.DOTALL)
