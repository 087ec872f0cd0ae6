"""Find and read cluster shapes: one YAML file per shape. The only module of specs/ that reads files.

A shape is named by its file: ``load_cluster("gpu-2x1")`` reads ``include/clusters/gpu-2x1.yaml``. Folders are searched
in this order: the one given, those of the environment variable RAYFLIGHT_SHAPES, the project that this package
stands in, the working directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rayflight.errors import InvalidSpec
from rayflight.specs.cluster import ClusterSpec

FOLDERS_VARIABLE = "RAYFLIGHT_SHAPES"
_SHAPES = Path("include", "clusters")


class _OnceLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice: the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} stands twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep=deep)


def load_cluster(shape: str | Path | Mapping[str, Any] | ClusterSpec, *, folder: Path | None = None) -> ClusterSpec:
    """Return the checked shape: by name, by path of a YAML file, or from plain data."""
    if isinstance(shape, ClusterSpec):
        return shape
    if isinstance(shape, Mapping):
        return ClusterSpec.parse(dict(shape), which=str(shape.get("name") or "cluster shape"))
    if not isinstance(shape, (str, Path)):
        raise InvalidSpec(
            "No cluster shape",
            why=f"it is {shape!r}, neither a name nor a path nor a mapping",
            next_step=f"name one of {', '.join(shape_names(folder=folder))}, or give a ClusterSpec",
        )
    path = _path(shape, folder)
    return ClusterSpec.parse({"name": path.stem, **read_yaml(path)}, which=f"cluster shape {path.name}")


def shape_names(*, folder: Path | None = None) -> list[str]:
    """Names of all shapes that can be found, for forms and messages."""
    return sorted({path.stem for each in _folders(folder) for path in each.glob("*.yaml")})


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file that holds one mapping."""
    try:
        with path.open(encoding="utf-8") as file:
            data = yaml.load(file, Loader=_OnceLoader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpec(
            "Unreadable file", which=str(path), why=str(error), next_step="check name and permission"
        ) from None
    except yaml.YAMLError as error:
        why = " ".join(str(error).split())
        raise InvalidSpec("No valid YAML", which=str(path), why=why, next_step="correct the file") from None
    if not isinstance(data, dict):
        why = f"a mapping is needed, this is {'empty' if data is None else type(data).__name__}"
        raise InvalidSpec("No cluster shape", which=str(path), why=why, next_step="see include/clusters for examples")
    return data


def _path(shape: str | Path, folder: Path | None) -> Path:
    if isinstance(shape, Path) or Path(shape).suffix in (".yaml", ".yml"):
        path = Path(shape)
        if path.is_file():
            return path
        raise InvalidSpec("No such file", which=str(path), next_step="name a shape, or a YAML file that exists")
    if "/" in shape or shape.startswith("."):  # a form may name shapes, not walk the disk
        raise InvalidSpec("Unknown cluster shape", which=repr(shape), why="a name has no '/'", next_step="name a shape")
    for each in _folders(folder):
        if (path := each / f"{shape}.yaml").is_file():
            return path
    known = ", ".join(shape_names(folder=folder)) or "none"
    raise InvalidSpec(
        "Unknown cluster shape",
        which=repr(shape),
        why=f"known are: {known}",
        next_step=f"name one of these, or set {FOLDERS_VARIABLE} to the folder that holds it",
    )


def _folders(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    yield from (Path(part) for part in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if part)
    yield Path(__file__).parents[3] / _SHAPES
    yield Path.cwd() / _SHAPES
