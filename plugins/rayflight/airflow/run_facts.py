"""What an alert says of its run: from the failing task, and from the archive where there is no task (DAG callbacks).

Reads; decides nothing. What cannot be read is left out: an alert with less in it is better than none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rayflight.airflow import access, settings
from rayflight.alerts import Link, Run
from rayflight.errors import VerificationFailed
from rayflight.findings import Check, Diagnosis
from rayflight.states import Verdict

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.archive import Archive

_DEEP = 3  # group, map index, attempt: how far below the run's folder an attempt may lie


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The newest verdicts that a run left in its archive."""

    folder: str = ""
    diagnosis: Diagnosis | None = None
    checks: tuple[Check, ...] = ()


def run_of(context: Context, *, whole: bool) -> Run:
    """Who speaks: a task, or with ``whole`` the DAG run."""
    ti, dag = context.get("ti"), context.get("dag")
    dag_id = str(ti.dag_id if ti else getattr(dag, "dag_id", ""))
    run_id = str(ti.run_id if ti else context.get("run_id", ""))
    if whole or ti is None:
        return Run(dag_id=dag_id, run_id=run_id, url=run_url(dag_id, run_id))
    return Run(
        dag_id=dag_id,
        run_id=run_id,
        task_id=ti.task_id,
        map_index=ti.map_index if ti.map_index is not None else -1,
        try_number=ti.try_number,
        url=str(getattr(ti, "log_url", "") or run_url(dag_id, run_id)),
    )


def run_url(dag_id: str, run_id: str) -> str:
    """The run in Airflow's own pages."""
    return f"{settings.base_url()}/dags/{quote(dag_id)}/runs/{quote(run_id)}"


def links_of(
    context: Context, run: Run, *, error: BaseException | str | None, at: datetime, kept: Kept
) -> tuple[Link, ...]:
    """Matrix, Ray dashboard, GPU dashboard of the run's time, archive: those that are known."""
    flight = flight_of(context)
    archive = str(flight.get("archive", "")) or _base(run.dag_id, run.run_id)
    folder = kept.folder
    if flight and isinstance(error, VerificationFailed):
        folder = f"attempt-{flight['owner']['attempt']}/{cluster_of(context, error, kept)}"
    matrix = f"{archive}/{folder}/verification.json" if kept.checks or isinstance(error, VerificationFailed) else ""
    found = {
        "Matrix": matrix,
        "Ray dashboard": _dashboard(context),
        "GPUs": settings.grafana_url(run.dag_id, run.run_id, start=_start(context, at), end=at),
        "Archive": archive,
    }
    return tuple(Link(name=name, url=url) for name, url in found.items() if url)


def flight_of(context: Context) -> Mapping[str, Any]:
    """The flight that the task was given; empty where there is none (or it is not rendered)."""
    task = context.get("task") or getattr(context.get("ti"), "task", None)
    flight = getattr(task, "flight", None)
    return flight if isinstance(flight, Mapping) and "owner" in flight else {}


async def kept_by(dag_id: str, run_id: str) -> Kept:
    """The newest attempt's diagnosis and matrix that names a cause, or nothing."""
    archive = access.archive(_base(dag_id, run_id))
    for folder in await _clusters(archive, ""):
        checks, diagnosis = (
            await _json(archive, f"{folder}/verification.json"),
            await _json(archive, f"{folder}/diagnosis.json"),
        )
        rows = tuple(Check(**row) for row in (checks or {}).get("checks", ()))
        found = Diagnosis.from_dict(diagnosis) if diagnosis else None
        if rows and (found is None or found.cause is None):
            from rayflight.verification import diagnosis_from_checks

            found = diagnosis_from_checks(rows)
        if found and found.cause:
            return Kept(folder=folder, diagnosis=found, checks=rows)
    return Kept()


async def _clusters(archive: Archive, folder: str, depth: int = 0) -> list[str]:
    """Folders of clusters, those of the newest attempt first."""
    names = await archive.names(folder)
    below = [name for name in names if "." not in name]
    attempts = sorted((name for name in below if name.startswith("attempt-")), key=lambda it: -int(it[8:] or 0))
    prefix = f"{folder}/" if folder else ""
    found = [
        f"{prefix}{name}/{child}" for name in attempts for child in reversed(await archive.names(f"{prefix}{name}"))
    ]
    if depth < _DEEP:
        for name in below:
            if not name.startswith("attempt-"):
                found += await _clusters(archive, f"{prefix}{name}", depth + 1)
    return found


async def _json(archive: Archive, name: str) -> dict[str, Any] | None:
    try:
        data = await archive.read(name)
        return json.loads(data) if data else None
    except (OSError, ValueError):
        return None


def _base(dag_id: str, run_id: str) -> str:
    return access.run_archive_url(settings.archive_base(), dag_id, run_id)


def _dashboard(context: Context) -> str:
    """Pushed by this task, or by the one that made the cluster."""
    from rayflight.airflow.links import RayDashboardLink

    ti = context.get("ti")
    if ti is None:
        return ""
    group = ti.task_id.rpartition(".")[0]
    try:
        for task_id in dict.fromkeys((ti.task_id, f"{group}.provision".lstrip("."))):
            found = ti.xcom_pull(task_ids=task_id, key=RayDashboardLink.xcom_key, map_indexes=ti.map_index)
            if found:
                return str(found)
    except Exception:  # noqa: BLE001 - a link less: XCom cannot be read in every process that runs callbacks
        return ""
    return ""


def _start(context: Context, at: datetime) -> datetime:
    start = getattr(context.get("dag_run"), "start_date", None)
    return start if isinstance(start, datetime) else at.astimezone(UTC) - timedelta(hours=1)


def cluster_of(context: Context, error: BaseException | str | None, kept: Kept) -> str:
    """The cluster that the fault was met on: what the error names, else the flight's."""
    named = str(getattr(error, "which", "")).rpartition("/")[2] if isinstance(error, BaseException) else ""
    ours = str(flight_of(context).get("cluster", ""))
    stem = ours.rpartition("-")[0]
    return named if stem and named.startswith(stem) else ours or kept.folder.rpartition("/")[2]


def passed_on(rows: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    """(check, node) of every row that passed. A row about a rank knows its pod; another one says where that is."""
    every = [(row, row.get("facts") or {}) for row in rows]
    nodes = {facts["pod"]: facts["node"] for _, facts in every if facts.get("pod") and facts.get("node")}
    found = {
        (str(row["id"]), str(facts.get("node") or nodes.get(facts.get("pod"), "")))
        for row, facts in every
        if row["verdict"] == Verdict.PASSED
    }
    return frozenset(pair for pair in found if pair[1])


def troubled(context: Context) -> tuple[Check, ...]:
    """The rows of a task that succeeded though some failed: a verification that goes on, a device that fell ill."""
    ti = context.get("ti")
    result = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index) if ti else None
    if not isinstance(result, Mapping):
        return ()
    from rayflight.verification import blocking

    standing = [row for row in result.get("watched") or () if row["until"] is None]
    known = Check.__dataclass_fields__
    told = (*_verified(context, result), *standing)
    rows = tuple(Check(**{key: row[key] for key in known if key in row}) for row in told)
    return rows if blocking(rows) else ()


def matrix_of(context: Context) -> Iterable[Mapping[str, Any]]:
    """The rows that this very task returned, where it was a verification."""
    ti = context.get("ti")
    return _verified(context, ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index)) if ti else ()


def _verified(context: Context, result: object) -> Iterable[Mapping[str, Any]]:
    ours = type(context.get("task")).__name__ == "VerifyRayCluster"
    return result.get("checks", ()) if ours and isinstance(result, Mapping) else ()
