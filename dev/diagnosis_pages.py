"""Writes docs/diagnosis/<id>.md, a page per kind of finding, and an index, from the code. ``--check`` only compares.

A test runs the comparison: the pages and the code cannot differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rayflight.diagnosis.catalogue import RULES
from rayflight.diagnosis.kind import Kind
from rayflight.diagnosis.kinds import KINDS
from rayflight.diagnosis.rules.gpus import XIDS
from rayflight.findings import Decision, Layer

FOLDER = Path(__file__).parent.parent / "docs" / "diagnosis"
BY_HAND = ("bundles.md",)
_MEANS = {
    Decision.FAIL: "fail: a retry cannot mend it",
    Decision.RETRY_AFTER: "retry after a delay: capacity or an outage",
    Decision.RETRY_ELSEWHERE: "retry on a new cluster: this one is lost, or its place is bad",
    Decision.WAIT: "wait: it may heal, or another finding decides",
}
_DEPTHS = {
    "NODE": "machine, device, registry, volume",
    "ADMISSION": "API server, operator, queue",
    "SCHEDULING": "placement",
    "CONTAINER": "containers and pods",
    "CLUSTER": "Ray's own nodes and head",
    "JOB": "what runs on Ray",
}
_LAYERS = {
    Layer.KUBERNETES: "Kubernetes: whoever runs the cluster",
    Layer.KUBERAY: "the KubeRay operator and its CRDs",
    Layer.RAY: "Ray's own processes and scheduling",
    Layer.USER: "what was asked for: spec, image, code",
    Layer.AIRFLOW: "whoever flies it",
}


def pages() -> dict[str, str]:
    """File name to text."""
    return {"index.md": _index(), **{f"{kind.id}.md": _page(kind) for kind in KINDS.values()}}


def _page(kind: Kind) -> str:
    rule = next(item for item in RULES if kind.id in item.ids)
    decisions = "; or ".join(_MEANS[item] for item in kind.decisions)
    ends = " It ends a running job by itself." if rule.ends_jobs else ""
    text = f"""# {kind.title}

`{kind.id}`

| | |
|---|---|
| layer | {_LAYERS[kind.layer]} |
| depth | {_DEPTHS[rule.depth.name]} |
| sign | {_cell(kind.sign)} |
| cause | {_cell(kind.cause)} |
| next step | {_cell(kind.next_step)} |
| decision | {decisions}.{ends} |
"""
    return text + (_xids(kind.id.rpartition("-")[2]) if kind.id.startswith("gpu-xid-") else "")


def _xids(sort: str) -> str:
    rows = [f"| {code} | {what} | {step} |" for code, (kind, what, step) in sorted(XIDS.items()) if kind == sort]
    return "\n| Xid | what | what to do |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _index() -> str:
    families = "\n".join(_family(layer) for layer in Layer)
    return f"""# What Rayflight can find

{len(KINDS)} kinds of findings, each with a stable id and a page. All rules run; the earliest, deepest finding is
the cause, the others follow from it or stand beside it. A rule is silent when the fact that decides is missing; when
nothing explains what is seen, the diagnosis is "unknown", with the facts and with what could not be read.

`rayflight diagnose` (see [bundles](bundles.md)) and every failing task of a flight say the same.
{families}"""


def _family(layer: Layer) -> str:
    rows: Iterable[Kind] = (kind for kind in KINDS.values() if kind.layer is layer)
    lines = "\n".join(f"| [{kind.id}]({kind.id}.md) | {kind.title} | {kind.decisions[0]} |" for kind in rows)
    return (
        f"\n## {_LAYERS[layer][0].upper()}{_LAYERS[layer][1:]}\n\n| id | title | decision |\n|---|---|---|\n{lines}\n"
    )


def differences() -> list[str]:
    """Pages that are missing, old, or of no kind any more."""
    wanted = pages()
    there = {path.name: path.read_text() for path in FOLDER.glob("*.md") if path.name not in BY_HAND}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(words: list[str]) -> int:
    changed = differences()
    if "--check" in words:
        print("\n".join(changed) or "all pages are as the code says")
        return 1 if changed else 0
    wanted = pages()
    for name in changed:
        path = FOLDER / name
        if name in wanted:
            path.write_text(wanted[name])
        else:
            path.unlink()
    print(f"{len(changed)} pages written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
