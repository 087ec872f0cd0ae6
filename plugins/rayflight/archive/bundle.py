"""Writes the bundle of one live cluster: a tar of plain files that ``rayflight diagnose`` and people read. Masked."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import yaml

from rayflight.backends.base import ClusterBackend, ClusterRef, LogFile
from rayflight.errors import ApiError
from rayflight.masking import Masker, masked, secrets
from rayflight.snapshot.kubernetes import LAST_APPLIED

_MOMENT = "t+000s"
_LOG_BYTES = 4 * 1024 * 1024  # per log; head and tail are kept
_PARALLEL = 8
_SECONDS = 60.0  # for all logs together


class Bundled(ClusterBackend, Protocol):
    """A backend that can say everything around a cluster."""

    async def everything(self, ref: ClusterRef) -> Mapping[str, Any]:
        """File name to JSON data or text, secrets included."""
        ...


async def write_bundle(backend: Bundled, ref: ClusterRef, target: Path) -> list[str]:
    """One moment of the cluster as ``target`` (tar.gz). Returns what could not be collected, in words."""
    at = datetime.now(UTC).isoformat()
    answers = dict(await backend.everything(ref))
    logs, missing = await _logs(backend, ref)
    masker = Masker(secrets(answers))  # what stands in the objects is masked in the logs, too
    name = f"{ref.namespace}-{ref.name}"
    files = {
        "case.json": _json({"case": name, "namespace": ref.namespace, "cluster": ref.name}),
        **_applied(answers, masker),
        f"{_MOMENT}/collected.json": _json({"at": at, "missing": missing}),
        **{f"{_MOMENT}/{file}": _plain(data, masker) for file, data in answers.items()},
        **{f"{_MOMENT}/logs/{file}": masker(data) for file, data in logs.items()},
    }
    await asyncio.to_thread(_write, target, name, files)
    unread = [
        f"{file}: {data['error']}" for file, data in answers.items() if isinstance(data, dict) and "error" in data
    ]
    return unread + missing


def _plain(data: Any, masker: Masker) -> bytes:
    return masker(data.encode()) if isinstance(data, str) else _json(masked(data, masker))


def _applied(answers: Mapping[str, Any], masker: Masker) -> dict[str, bytes]:
    """What kubectl applied, of which an old CRD drops fields without a word; its copy in the annotations is masked."""
    found = [item["metadata"] for item in (answers.get("rayclusters.json") or {}).get("items") or ()]
    texts = [meta["annotations"][LAST_APPLIED] for meta in found if LAST_APPLIED in (meta.get("annotations") or {})]
    documents = [yaml.safe_dump(masked(json.loads(text), masker)) for text in texts]
    return {"manifest.yaml": "---\n".join(documents).encode()} if documents else {}


def _json(data: Any) -> bytes:
    return json.dumps(data, indent=1).encode()


async def _logs(backend: ClusterBackend, ref: ClusterRef) -> tuple[dict[str, bytes], list[str]]:
    try:
        wanted = await backend.logs(ref)
    except ApiError as error:
        return {}, [f"logs: {error}"]
    gate, found, missing = asyncio.Semaphore(_PARALLEL), dict[str, bytes](), list[str]()

    async def one(log: LogFile) -> None:
        async with gate:
            try:
                blocks = [block async for block in backend.read_log(ref, log, limit=_LOG_BYTES)]
                found[_file(log)] = b"".join(blocks)
            except ApiError as error:
                missing.append(f"log {log.name}: {error}")

    tasks = {asyncio.create_task(one(log)): log for log in wanted}
    if tasks:
        async with AsyncExitStack() as stack:
            stack.callback(lambda: [task.cancel() for task in tasks])
            _, late = await asyncio.wait(tasks, timeout=_SECONDS)
        missing += [f"log {tasks[task].name}: not read within {_SECONDS:.0f} s" for task in late]
        await asyncio.gather(*tasks, return_exceptions=True)
    return found, missing


def _file(log: LogFile) -> str:
    """``POD.CONTAINER[.previous].log`` of containers, ``driver-SUBMISSION.log`` of drivers, others below their pod."""
    kind, pod, *rest = log.source.split("/")
    if kind == "pods":
        return f"{pod}.{'.'.join(rest)}.log"
    file = log.name.partition("/")[2]
    if file.startswith("job-driver-"):
        return f"driver-{file.removeprefix('job-driver-')}"
    plain = file.rpartition(".")[0] if file.endswith((".out", ".err", ".log")) else file
    return f"{pod}/{plain}{'.err' if file.endswith('.err') else ''}.log"


def _write(target: Path, name: str, files: Mapping[str, bytes]) -> None:
    with tarfile.open(target, "w:gz") as tar:
        for file, data in files.items():
            member = tarfile.TarInfo(f"{name}/{file}")
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
