"""Ray clusters as processes of this machine: implements ``ClusterBackend`` without Kubernetes and without root.

The records in the connection's folder are the authority (``local_state``); a keeper process per cluster starts and
supervises Ray (``rayflight.keeper``). Only processes that carry a cluster's mark are ever ended.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import uuid
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rayflight.backends import local_keeping, local_logs, local_plan, local_pods
from rayflight.backends.base import ClusterRef, LogFile
from rayflight.backends.local_access import LocalAccess
from rayflight.backends.local_ray import SOCKET, Dashboard
from rayflight.backends.local_state import PLAN, STATUS, JsonObject, Records, matches, read_json
from rayflight.backends.log_choice import head_and_tail
from rayflight.backends.ray_side import look
from rayflight.backends.stored import check_ours, reference
from rayflight.errors import ApiError, ClusterGone, InvalidSpec
from rayflight.keeper import devices, processes
from rayflight.keeper.ender import LOCK as ENDER_LOCK
from rayflight.labels import Owner
from rayflight.manifests import build
from rayflight.masking import masked
from rayflight.rayjobs.client import RayJobsClient
from rayflight.snapshot.assemble import assemble
from rayflight.snapshot.model import NOT_APPLICABLE, Gap, Ray, Snapshot
from rayflight.snapshot.times import seconds_between
from rayflight.specs import ClusterSpec

_KUBERNETES_ONLY = ("events", "nodes", "foreign_pods", "quotas", "claims", "services")
_STARTING = 30.0  # seconds in which a keeper must have written its first status
_LOOK = 0.2  # seconds between two looks at a file's time


class LocalBackend:
    """This machine as a place for clusters."""

    name = "local"

    def __init__(self, access: LocalAccess) -> None:
        self._access = access
        self._records = Records(access.folder)
        self._dashboards: dict[str, Dashboard] = {}

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._heal)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for dashboard in self._dashboards.values():
            await dashboard.close()
        self._dashboards.clear()

    def _heal(self) -> None:
        """End what is half ended, and what has no record any more. Records last: they are written before all else."""
        running, folders = processes.running(str(self._access.folder)), local_keeping.run_folders(self._access)
        records = self._records.list()
        for uid in (running | folders.keys()) - {record["uid"] for record in records}:
            processes.end(uid, grace=1.0)
            if uid in folders:
                shutil.rmtree(folders[uid], ignore_errors=True)
        for record in records:
            self._end_what_is_half_ended(record["object"])

    def _end_what_is_half_ended(self, cluster: JsonObject) -> None:
        """Go on where an ender was killed."""
        meta = cluster["metadata"]
        folder = self._records.path(meta["namespace"], meta["name"])
        if meta.get("deletionTimestamp") and not local_keeping.is_held(folder / ENDER_LOCK):
            local_keeping.start_ender(folder, self._access)

    async def preflight(self, spec: ClusterSpec, namespace: str) -> list[str]:
        """Ray is there, the GPUs are there, the folder can be written; what is ignored and what is open is said."""
        self._access.allowed(namespace)
        return await asyncio.to_thread(self._preflight, spec)

    async def checkup(self) -> str:
        """Ray is there, and how its clusters are kept apart from the world."""
        namespace = self._access.allowed()
        await asyncio.to_thread(local_keeping.require_ray, self._access)
        local_keeping.require_folder(self._access)
        open_ = await asyncio.to_thread(local_keeping.why_not_fenced, self._access)
        kept = f"open to this machine's network ({open_}), guarded by a token" if open_ else "on loopback only"
        return (
            f"{self._access.ray} starts clusters as processes of this machine, {kept}, "
            f"recorded in {self._access.folder} (namespace {namespace})."
        )

    def _preflight(self, spec: ClusterSpec) -> list[str]:
        local_keeping.require_ray(self._access)
        wanted = spec.gpus and not spec.simulated
        local_plan.refuse(spec, devices.present() if wanted else ())
        warnings = list(local_plan.warnings(spec))
        if spec.simulated and spec.gpus:
            warnings.append(f"SIMULATED: the {spec.gpus} GPUs of this shape are names in Ray, no devices")
        why = local_keeping.why_not_fenced(self._access)
        if why:
            warnings.append(
                f"no network namespace ({why}): Ray's GCS and workers listen on all interfaces of this machine; "
                "token authentication is forced, and ports stand in keeper.log"
            )
        return warnings

    async def create(
        self, spec: ClusterSpec, owner: Owner, namespace: str, *, avoid: Collection[str] = ()
    ) -> ClusterRef:
        """Record the cluster and start its keeper, or adopt the one that this same attempt made from the same spec."""
        if avoid:
            why, step = "this machine is the only one here", "fly on Kubernetes to have other nodes"
            raise InvalidSpec("Nodes cannot be avoided:", which=", ".join(sorted(avoid)), why=why, next_step=step)
        return await asyncio.to_thread(self._create, spec, owner, self._access.allowed(namespace))

    def _create(self, spec: ClusterSpec, owner: Owner, namespace: str) -> ClusterRef:
        name = owner.cluster_name
        with self._records.lock(namespace):
            record = self._records.read(namespace, name)
            if record is not None:
                check_ours(record["object"], spec, owner)
            else:
                record = self._record(spec, owner, namespace)
                self._records.write(namespace, name, record)
            if not record["object"]["spec"].get("suspend"):
                local_keeping.start_keeper(self._records.path(namespace, name), record, self._access)
        return reference(record["object"])

    @staticmethod
    def _record(spec: ClusterSpec, owner: Owner, namespace: str) -> JsonObject:
        uid = str(uuid.uuid4())
        manifest = build(spec, owner, namespace)
        manifest["metadata"] |= {"uid": uid, "creationTimestamp": _now(), "generation": 1}
        return {
            "uid": uid,
            "grace": spec.termination_grace_seconds,
            "token": spec.auth == "token",
            "run_folder": str(local_keeping.RUN_FOLDERS / f"rf-{uid[:8]}"),
            "object": manifest,
        }

    async def replace_pod(self, ref: ClusterRef, name: str, uid: str) -> None:  # noqa: ARG002 - a tree keeps its own
        """End that worker's process tree; the keeper starts it again, on the same machine and the same devices."""
        record = await asyncio.to_thread(self._records.read, ref.namespace, ref.name)
        if record is not None and record["uid"] == ref.uid:
            await asyncio.to_thread(processes.end_present, ref.uid, float(record["grace"]), name)

    async def find(self, namespace: str, selector: str) -> Sequence[ClusterRef]:
        """Clusters that carry these labels, oldest first."""
        records = await asyncio.to_thread(self._records.list, self._access.allowed(namespace))
        objects = [item["object"] for item in records]
        found = [reference(item) for item in objects if matches(item["metadata"].get("labels") or {}, selector)]
        return sorted(found, key=lambda ref: (ref.created_at or "", ref.name))

    async def annotate(self, ref: ClusterRef, annotations: Mapping[str, str | None]) -> None:
        """Set (or with None remove) annotations; refuses another UID. Raises ClusterGone."""

        def edit(cluster: JsonObject) -> None:
            kept = {**(cluster["metadata"].get("annotations") or {}), **annotations}
            cluster["metadata"]["annotations"] = {key: value for key, value in kept.items() if value is not None}

        await asyncio.to_thread(self._change, ref, edit)

    async def resume(self, ref: ClusterRef) -> None:
        """Let a cluster that was created suspended have its processes; refuses another UID. Raises ClusterGone."""

        def edit(cluster: JsonObject) -> None:
            cluster["spec"]["suspend"] = False

        record = await asyncio.to_thread(self._change, ref, edit)
        await asyncio.to_thread(local_keeping.start_keeper, self._folder(ref), record, self._access)

    def _change(self, ref: ClusterRef, edit: Any) -> JsonObject:
        record = self._records.change(ref.namespace, ref.name, ref.uid, edit)
        if record is None:
            why = "it is gone, or another one has its name"
            raise ClusterGone("Cannot change the cluster:", which=str(ref), why=why)
        return record

    async def observe(self, ref: ClusterRef, *, ray: bool = True) -> Snapshot:
        """Everything now seen of this cluster. A cluster without its keeper is gone: nobody would mend it."""
        raw, tails = await asyncio.to_thread(self._seen, ref)
        gaps = [Gap(source=name, why=f"{NOT_APPLICABLE}: local backend") for name in _KUBERNETES_ONLY]
        side, ray_gaps = await self._ray(ref, raw, asked=ray)
        snapshot = assemble(
            raw, namespace=ref.namespace, name=ref.name, taken_at=datetime.now(UTC).isoformat(), logs=tails
        )
        return replace(snapshot, ray=side, gaps=(*gaps, *ray_gaps), backend=self.name)

    async def _ray(self, ref: ClusterRef, raw: Mapping[str, Any], *, asked: bool) -> tuple[Ray | None, list[Gap]]:
        if not asked:
            return None, [Gap(source="ray", why="not asked for this time")]
        containers = [item for pod in raw["pods"]["items"][:1] for item in pod["status"]["containerStatuses"]]
        if not any(item["ready"] for item in containers):
            return None, [Gap(source="ray", why="the head does not run (yet)")]
        return await look(self.jobs(ref))

    def _seen(self, ref: ClusterRef) -> tuple[dict[str, Any], dict[str, str]]:
        record = self._records.read(ref.namespace, ref.name)
        status, plan = read_json(self._folder(ref) / STATUS), read_json(self._folder(ref) / PLAN)
        if record is None or record["uid"] != ref.uid or self._is_abandoned(record["object"], status):
            return {"rayclusters": {"items": []}, "pods": {"items": []}}, {}
        cluster = local_pods.with_status(record["object"])
        trees, states = (plan["trees"], status["trees"]) if plan and status else ([], {})
        pods = local_pods.pods(cluster, trees, states, platform.node())
        tails = {
            f"{pod['metadata']['name']}/{pod['spec']['containers'][0]['name']}/previous": local_logs.tail(
                Path(tree["folder"], local_logs.START_LOG)
            )
            for pod, tree in zip(pods, trees, strict=True)
            if states[tree["name"]]["restarts"]
        }
        return {"rayclusters": {"items": [cluster]}, "pods": {"items": pods}}, tails

    @staticmethod
    def _is_abandoned(cluster: JsonObject, status: JsonObject | None) -> bool:
        if cluster["spec"].get("suspend") or cluster["metadata"].get("deletionTimestamp"):
            return False
        if status is None:
            age = seconds_between(cluster["metadata"]["creationTimestamp"], _now())
            return age is not None and age > _STARTING
        return not processes.same(int(status["pid"]), float(status["started"]))

    async def changes(self, ref: ClusterRef, *, at_least_every: float) -> AsyncGenerator[None]:
        """Yields at once, then when the keeper wrote something new, at least every so many seconds."""
        seen = self._written(ref)
        while True:
            yield
            waited = 0.0
            while waited < at_least_every and self._written(ref) == seen:
                await asyncio.sleep(min(_LOOK, at_least_every - waited))
                waited += _LOOK
            seen = self._written(ref)

    def _written(self, ref: ClusterRef) -> int:
        try:
            return (self._folder(ref) / STATUS).stat().st_mtime_ns
        except OSError:
            return 0

    async def delete(self, ref: ClusterRef) -> None:
        """Note the deletion and start the ender; silent when the cluster is gone already. Does not wait."""

        def edit(cluster: JsonObject) -> None:
            cluster["metadata"].setdefault("deletionTimestamp", _now())

        def mark_and_start() -> None:
            if self._records.change(ref.namespace, ref.name, ref.uid, edit) is not None:
                local_keeping.start_ender(self._folder(ref), self._access)

        await asyncio.to_thread(mark_and_start)

    async def remains(self, ref: ClusterRef) -> Sequence[str]:
        """Processes that carry the cluster's mark, and its record."""
        return await asyncio.to_thread(self._remains, ref)

    def _remains(self, ref: ClusterRef) -> list[str]:
        record = self._records.read(ref.namespace, ref.name)
        if record is not None and record["uid"] == ref.uid:
            self._end_what_is_half_ended(record["object"])
        if left := [str(process.pid) for process in processes.members(ref.uid)]:
            return [f"{len(left)} processes of {ref.name} (pids {', '.join(left[:5])}{' …' if len(left) > 5 else ''})"]
        if record is None or record["uid"] != ref.uid:
            return []
        since = record["object"]["metadata"].get("deletionTimestamp", "by nobody")
        return [f"the record of {ref.name} (deleted {since})"]

    def jobs(self, ref: ClusterRef) -> RayJobsClient:
        """The Ray Jobs API of this cluster."""
        if ref.uid not in self._dashboards:
            self._access.allowed(ref.namespace)
            self._dashboards[ref.uid] = Dashboard(self._folder(ref), ref)
        return self._dashboards[ref.uid].jobs

    async def logs(self, ref: ClusterRef) -> Sequence[LogFile]:
        """Every log that can be collected now."""
        plan = read_json(self._folder(ref) / PLAN)
        return [] if plan is None else await asyncio.to_thread(local_logs.files, plan["trees"])

    async def read_log(self, ref: ClusterRef, log: LogFile, *, limit: int) -> AsyncGenerator[bytes]:
        """The log in blocks, at most ``limit`` bytes and a mark where it was cut."""
        plan = read_json(self._folder(ref) / PLAN) or {"trees": []}
        path = local_logs.path_of(log, self._folder(ref), plan["trees"])
        async for block in head_and_tail(local_logs.blocks(path), limit):
            yield block

    async def dump(self, ref: ClusterRef) -> Mapping[str, Any]:
        """The record, the trees as pods, the keeper's own words, and Ray's answers; secrets masked."""
        raw, _ = await asyncio.to_thread(self._seen, ref)
        status = read_json(self._folder(ref) / STATUS)
        found = {f"{name}.json": masked(data) for name, data in (*raw.items(), ("keeper", status))}
        try:
            side = await self.jobs(ref).raw_state()
        except ApiError as error:
            return {**found, "ray/error.json": {"error": str(error)}}
        answers = {name: {"error": data.why} if isinstance(data, Gap) else data for name, data in side.items()}
        return {**found, **{f"ray/{name}.json": data for name, data in answers.items()}}

    def dashboard_url(self, ref: ClusterRef) -> str | None:
        """None inside a fence: no browser reaches it by an address (``way_in`` says how)."""
        status = read_json(self._folder(ref) / STATUS)
        return f"http://127.0.0.1:{status['dashboard_port']}" if status and not status["fenced"] else None

    def way_in(self, ref: ClusterRef) -> str:
        """A command that opens the dashboard for a person."""
        plan = read_json(self._folder(ref) / PLAN) or {"run_folder": "?"}
        return self.dashboard_url(ref) or f"python -m rayflight.keeper.relay {plan['run_folder']}/{SOCKET}"

    def _folder(self, ref: ClusterRef) -> Path:
        return self._records.path(ref.namespace, ref.name)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
