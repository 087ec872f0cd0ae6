"""Reads a folder (or tar) of plain dumps of both layers as snapshots, one per moment. Reads files only; judges nothing.

The folder is what a colleague makes with kubectl and curl, or what ``rayflight snapshot`` wrote
(docs/diagnosis/bundles.md).
What is absent, cut off or an error text becomes a gap of the snapshot; only what holds no cluster at all is refused.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from rayflight.errors import InvalidSpec
from rayflight.snapshot.assemble import KINDS, assemble
from rayflight.snapshot.model import Snapshot
from rayflight.snapshot.times import instant

_TAIL = 256 * 1024  # bytes of a log's end that a rule may want
_HEAD = 16 * 1024  # and of its beginning: what failed first stands there
_UNPACKED = 4 * 1024**3  # bytes; more than any bundle of one cluster holds
_TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"')
_LARGEST = 512 * 1024**2  # bytes of one answer; the events of a large cluster are some 30 MB
_BEGINS = re.compile(rb"^[{\[]", re.MULTILINE)
_YAML = re.compile(rb"(?:---|apiVersion:|items:|kind:)")
_ENDINGS = ("json", "yaml", "yml")
_SECONDS = re.compile(r"(?<=t)[+-]\d+(?=s)")  # t-000s, t+008s
_ARCHIVED = "snapshot.json"
_CLUSTER_LABEL = "ray.io/cluster"


class SeveralClusters(InvalidSpec):
    """Nothing in the folder tells which of its RayClusters is meant."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The moments of one cluster, oldest first."""

    moments: tuple[Snapshot, ...]

    @property
    def newest(self) -> Snapshot:
        """The one that is judged."""
        return self.moments[-1]


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """The folder itself, or a temporary one into which the tar was unpacked."""
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rayflight-") as place:
        try:
            with tarfile.open(path) as tar:
                if sum(item.size for item in tar) > _UNPACKED:
                    raise _refused(path, f"unpacked it would be larger than {_UNPACKED // 1024**3} GiB")
                tar.extractall(place, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise _refused(path, f"it is neither a folder nor a readable tar ({str(error).split(':')[0]})") from None
        yield _only_folder(Path(place))


def _only_folder(place: Path) -> Path:
    """Down to where something stands: a tar may hold its folder in another."""
    inside = list(place.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and not _is_moment(place):
        return _only_folder(inside[0])
    return place


def read(folder: Path, cluster: str | None = None) -> Dump:
    """Every moment as a Snapshot. Raises InvalidSpec where there is no cluster, or several and none is named."""
    if (folder / _ARCHIVED).is_file():
        return _archived(folder)
    case = _plain(folder / "case.json") or {}
    places = _moments(folder)
    if not places:
        below = [path for depth in range(1, 4) for path in sorted(folder.glob(f"{'*/' * depth}{_ARCHIVED}"))]
        step = f"name the cluster's own folder in this archive: {', '.join(str(it.parent) for it in below[:3])}"
        raise _refused(folder, "no file of it is a dump (rayclusters.json, pods.json, ...)", step if below else "")
    answers = [Answers(place) for place in places]
    documents = _manifests(folder / "manifest.yaml")
    namespace, name = _which(folder, case, answers, documents, cluster)
    asked = next((item for item in documents if (item.get("metadata") or {}).get("name") == name), None)
    return Dump(
        moments=tuple(
            assemble(
                found,
                namespace=namespace,
                name=name,
                taken_at=_taken_at(found),
                logs=_logs(found.place / "logs"),
                asked=asked,
            )
            for found in answers
        )
    )


def _archived(folder: Path) -> Dump:
    """A cluster's folder in the archive of a flight: the very Snapshot that was taken, and the logs beside it."""
    try:
        seen = Snapshot.from_dict(json.loads((folder / _ARCHIVED).read_bytes()))
    except ValueError as error:
        raise _refused(folder, f"its {_ARCHIVED} is not readable ({str(error).splitlines()[0]})") from None
    drivers = {name: text for name, text in _logs(folder.parent / "logs").items() if name.startswith("driver/")}
    return Dump(moments=(replace(seen, logs={**drivers, **_logs(folder / "logs"), **seen.logs}),))


class Answers(Mapping[str, Any]):
    """The raw answers of one moment by name, read when they are asked for: the events alone may be 30 MB."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __getitem__(self, name: str) -> Any:
        if name == "ray/gcs_healthz":
            path = self.place / "ray" / "gcs_healthz.txt"
            if not path.is_file():
                raise KeyError(name)
            text = path.read_text(errors="replace").strip()
            return {"error": text} if text.startswith("{") else text  # in JSON it is no answer of the GCS
        answer = _plain(self.place / f"{name}.json")
        for ending in _ENDINGS[1:]:
            answer = _yaml(self.place / f"{name}.{ending}") if answer is None else answer
        if answer is None:
            raise KeyError(name)
        return {"items": [answer]} if _is_one(answer) and name in KINDS else answer

    def __iter__(self) -> Iterator[str]:
        return iter(path.stem for path in self.place.glob("*.json"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_one(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "metadata" in answer and "items" not in answer and "error" not in answer


def _plain(path: Path) -> Any:
    """The file's JSON; None where there is no such file; an error where it holds something else."""
    if not path.is_file():
        return None
    if path.stat().st_size > _LARGEST:
        return {"error": f"{path.name} is larger than {_LARGEST // 1024**2} MiB"}
    data = path.read_bytes().strip()
    try:
        return json.loads(data) if data else {"error": "the file is empty"}
    except (ValueError, RecursionError) as error:
        return _otherwise(path, data, error)


def _otherwise(path: Path, data: bytes, error: Exception) -> Any:
    """What a shell makes of JSON: warnings before it (``2>&1``), a stray byte in it, YAML under its name."""
    begins = _BEGINS.search(data[:_HEAD])
    if _YAML.match(data):
        return _yaml(path)
    try:
        return json.loads(data[begins.start() if begins else 0 :].decode(errors="replace"))
    except (ValueError, RecursionError):
        return {"error": f"{path.name} is no JSON ({' '.join(str(error).split())[:200]})"}


def _yaml(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        return {"error": f"{path.name} is no YAML ({' '.join(str(error).split())[:200]})"}


def _moments(folder: Path) -> list[Path]:
    if _is_moment(folder):
        return [folder]
    found = [path for path in folder.iterdir() if path.is_dir() and _is_moment(path)]
    times = {path: _when(path) for path in found}
    numbers = {path: _SECONDS.search(path.name) for path in found}
    if all(times.values()):
        return sorted(found, key=lambda path: (times[path], path.name))
    if all(numbers.values()):  # by name t-000s would come last
        return sorted(found, key=lambda path: int(it[0]) if (it := numbers[path]) else 0)
    return sorted(found, key=lambda path: path.name)


def _is_moment(folder: Path) -> bool:
    names = (*KINDS, "collected")
    found = (folder / f"{name}.{end}" for name in names for end in _ENDINGS)
    return any(path.is_file() for path in found) or (folder / "ray").is_dir()


def _when(place: Path) -> str:
    """The time of collection in the one form, or nothing where it says none."""
    said = _plain(place / "collected.json")
    at = said.get("at") if isinstance(said, Mapping) else None
    return instant(at) or "" if isinstance(at, str) and _is_time(at) else ""


def _taken_at(answers: Answers) -> str:
    said = _plain(answers.place / "collected.json")
    at = said.get("at") if isinstance(said, Mapping) else None
    if isinstance(at, str) and _is_time(at):
        return at
    return _newest_time(answers.place) or datetime.fromtimestamp(answers.place.stat().st_mtime, UTC).isoformat()


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _newest_time(place: Path) -> str | None:
    """The latest time that any object names: a copied file's own time says nothing."""
    now = datetime.now(UTC).isoformat()
    texts = (path.read_text(errors="replace") for path in place.glob("*.json") if path.stem in KINDS)
    return max((time for text in texts for time in _TIME.findall(text) if time < now), default=None)


def _logs(folder: Path) -> dict[str, str]:
    """``POD.CONTAINER[.previous].log`` and ``driver-SUBMISSION.log`` by the Snapshot's names; others by their own."""
    found = {}
    for path in sorted(folder.rglob("*.log")) if folder.is_dir() else ():
        found[log_name(str(path.relative_to(folder)))] = _ends(path)
    return found


def log_name(file: str) -> str:
    """The name under which a Snapshot knows the log of that file.

    >>> log_name("driver-train-1.log"), log_name("c-head-x.ray-head.previous.log"), log_name("airflow-train.log")
    ('driver/train-1', 'c-head-x/ray-head/previous', 'airflow-train')
    """
    stem = file.removesuffix(".log")
    if "/" in stem:  # as an archive keeps them, a folder per pod
        return stem.removesuffix(".previous") + ("/previous" if stem.endswith(".previous") else "")
    if stem.startswith("driver-"):
        return f"driver/{stem.removeprefix('driver-')}"
    previous = "/previous" if stem.endswith(".previous") else ""
    pod, dot, container = stem.removesuffix(".previous").rpartition(".")
    return f"{pod}/{container}{previous}" if dot else stem


def _ends(path: Path) -> str:
    with path.open("rb") as file:
        size = path.stat().st_size
        if size <= _HEAD + _TAIL:
            return file.read().decode(errors="replace")
        head = file.read(_HEAD)
        file.seek(size - _TAIL)
        return f"{head.decode(errors='replace')}\n...\n{file.read().decode(errors='replace')}"


def _manifests(path: Path) -> list[dict[str, Any]]:
    """RayClusters that were applied; a manifest that is no YAML tells nothing."""
    if not path.is_file():
        return []
    try:
        documents = list(yaml.safe_load_all(path.read_bytes()))
    except yaml.YAMLError:
        return []
    return [item for item in documents if isinstance(item, dict) and item.get("kind") == "RayCluster"]


def _which(
    folder: Path, case: Any, answers: Sequence[Answers], documents: Sequence[Mapping[str, Any]], wanted: str | None
) -> tuple[str, str]:
    """(namespace, name) of the cluster to judge."""
    found = _candidates(answers, documents)
    said = case if isinstance(case, Mapping) else {}
    name = wanted or said.get("cluster")
    if isinstance(name, str) and name:
        spaces = [space for space, item in found if item == name]
        space = "" if wanted else said.get("namespace")
        return space if isinstance(space, str) and space else (spaces or [""])[0], name
    meant = _applied(found, documents) or _served(found, answers)
    if meant is not None:
        return meant
    if len(found) > 1:
        names = tuple(item for _, item in found)
        several = SeveralClusters(
            "Cannot read the bundle",
            which=str(folder),
            why=f"it holds {len(found)} RayClusters ({', '.join(names)})",
            next_step="name one with --cluster",
        )
        several.names = names
        raise several
    if not found:
        raise _refused(folder, "no RayCluster and no pod of one is in it", "collect rayclusters.json or pods.json")
    return found[0]


def _applied(found: Sequence[tuple[str, str]], documents: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The one of them that the folder's manifest is of."""
    names = {(item.get("metadata") or {}).get("name") for item in documents}
    meant = [item for item in found if item[1] in names]
    return meant[0] if len(meant) == 1 else None


def _served(found: Sequence[tuple[str, str]], answers: Sequence[Answers]) -> tuple[str, str] | None:
    """The one of them whose pods have the addresses of the folder's Ray nodes: Ray's answers are of one cluster."""
    ray, clusters = set(), set()
    for moment in answers:
        ray |= {item.get("node_ip") for item in _ray_nodes(moment)}
        clusters |= {
            _of_pod(item)[1]
            for item in _items(moment, "pods")
            if (item.get("status") or {}).get("podIP") in ray - {None}
        }
    meant = [item for item in found if item[1] in clusters]
    return meant[0] if len(meant) == 1 else None


def _ray_nodes(moment: Answers) -> Sequence[Mapping[str, Any]]:
    answer: Any = moment.get("ray/nodes")
    for key in ("data", "result", "result"):
        answer = answer.get(key) if isinstance(answer, Mapping) else None
    return [item for item in answer if isinstance(item, Mapping)] if isinstance(answer, list) else []


def _candidates(answers: Sequence[Answers], documents: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Clusters that were seen; else those that were applied; else those whose pods or RayJobs were seen."""
    seen = _named(item for moment in answers for item in _items(moment, "rayclusters"))
    applied = _named(documents)
    if seen or applied:
        return seen or applied
    pods = [_of_pod(item) for moment in answers for item in _items(moment, "pods")]
    jobs = [_of_rayjob(item) for moment in answers for item in _items(moment, "rayjobs")]
    return list(dict.fromkeys(item for item in [*pods, *jobs] if item[1]))


def _named(items: Any) -> list[tuple[str, str]]:
    metas = (item.get("metadata") or {} for item in items)
    return list(
        dict.fromkeys((str(meta.get("namespace") or ""), str(meta["name"])) for meta in metas if "name" in meta)
    )


def _of_pod(item: Mapping[str, Any]) -> tuple[str, str]:
    meta = item.get("metadata") or {}
    return str(meta.get("namespace") or ""), str((meta.get("labels") or {}).get(_CLUSTER_LABEL) or "")


def _of_rayjob(item: Mapping[str, Any]) -> tuple[str, str]:
    """A RayJob whose cluster is not there: refused, or done."""
    meta, status = item.get("metadata") or {}, item.get("status") or {}
    return str(meta.get("namespace") or ""), str(status.get("rayClusterName") or meta.get("name") or "")


def _items(moment: Answers, name: str) -> Sequence[Mapping[str, Any]]:
    answer = moment.get(name)
    items = answer.get("items") if isinstance(answer, Mapping) else None
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _refused(path: Path, why: str, step: str = "") -> InvalidSpec:
    step = step or "give a folder as docs/diagnosis/bundles.md describes it, its tar, or NAMESPACE/CLUSTER"
    return InvalidSpec("Cannot read the bundle", which=str(path), why=why, next_step=step)
