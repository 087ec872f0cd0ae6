"""Every relative link of the documents leads to a file, and its anchor to a heading there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rayflight.backends import kube_bundle
from tests.unit.docs.documents import DOCS

ROOT = DOCS.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(path: Path) -> frozenset[str]:
    """As GitHub makes them of headings; a heading that comes again gets a number."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        again = sum(1 for it in found if it == name or re.fullmatch(rf"{re.escape(name)}-\d+", it))
        found.add(f"{name}-{again}" if again else name)
    return frozenset(found)


def broken(path: Path) -> list[str]:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(f"{path.relative_to(ROOT)}: {link}")
    return wrong


def test_every_relative_link_and_anchor_resolves():
    assert len(DOCUMENTS) > 200
    assert [link for path in DOCUMENTS for link in broken(path)] == []


def test_a_dead_link_and_a_dead_anchor_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.unit.docs.test_links.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One thing: `x`\n# One thing: `x`\n[a](#one-thing-x) [b](#one-thing-x-1) [c](#two) [d](no.md)\n")
    assert broken(page) == ["page.md: #two", "page.md: no.md"]


def test_every_file_that_snapshot_writes_is_documented():
    names = {*kube_bundle._OF_NAMESPACE, *kube_bundle._OF_CLUSTER, "foreign_pods", "namespace", "pendingworkloads"}
    text = (DOCS / "diagnosis" / "bundles.md").read_text()
    assert [name for name in names if f" {name}.json" not in text] == []


def test_a_python_example_names_where_its_classes_come_from():
    for path in DOCUMENTS:
        for code in re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL):
            for name in ("JobSpec", "ClusterSpec", "TeardownPolicy"):
                assert f"{name}(" not in code or f"import {name}" in code, f"{path.name}: {name}"
