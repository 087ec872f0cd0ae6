"""Shape files, checked without a cluster: what they ask for, what may go wrong, what is refused. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rayflight.errors import InvalidSpec
from rayflight.specs import load_cluster

_SUFFIXES = (".yaml", ".yml")


def judged(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """For each file what is to be said of it, or the sentence that refuses it."""
    for path in paths:
        files = sorted(item for item in path.iterdir() if item.suffix in _SUFFIXES) if path.is_dir() else [path]
        if not files:
            yield "", f"No shapes in {path}: no file there ends in .yaml. Next: name a folder or files of shapes"
        for file in files:
            yield _judge(file)


def _judge(file: Path) -> tuple[str, str]:
    try:
        spec = load_cluster(file)
    except InvalidSpec as error:
        return "", f"{file}: {' '.join(str(error).split())}"
    pods = sum(group.pods for group in spec.groups)
    warnings = "".join(f"\n  likely to go wrong: {warning}" for warning in spec.warnings())
    return f"{file}: {pods} worker pod{'s' * (pods != 1)}, {spec.gpus} GPU{'s' * (spec.gpus != 1)}{warnings}", ""
