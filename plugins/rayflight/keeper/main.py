"""The keeper of one local cluster: ``python -m rayflight.keeper.main FOLDER``.

Starts head and workers as ``plan.json`` says and starts again what ends, as a kubelet does. What stands is in
``status.json``. Ending is not its business: whoever ends the cluster (``ender``) ends the keeper first, and the kernel
then tells the trees.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rayflight.keeper import processes, relay
from rayflight.keeper.commands import AGENTS, Ports, Tree, command, environment, simulated_devices, temporary
from rayflight.keeper.devices import Devices, present
from rayflight.keeper.fence import die_with_parent, fence

PLAN, STATUS, LOCK = "plan.json", "status.json", "keeper.lock"
SOCKET = "dashboard.sock"
_LONGEST_PAUSE = 30.0  # seconds between starts of a tree that keeps ending
_POLL = 0.2


@dataclass
class _State:
    """One tree as ``status.json`` says it: the words are those of a container's status."""

    created_at: str
    state: str = "waiting"  # waiting, running, terminated
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    restarts: int = 0
    last_exit: int | None = None
    last_ended_at: str | None = None
    devices: list[str] = field(default_factory=list)


class Keeper:
    """One cluster's processes."""

    def __init__(self, folder: Path, *, fenced: bool, why_not_fenced: str = "") -> None:
        self.folder = folder
        self.plan: Mapping[str, Any] = json.loads((folder / PLAN).read_text())
        self.trees = [Tree.from_dict(item) for item in self.plan["trees"]]
        self.states = {tree.name: _State(created_at=_now()) for tree in self.trees}
        self.fenced, self.why_not_fenced = fenced, why_not_fenced
        self.ports = {tree.name: Ports() for tree in self.trees}
        self.devices = Devices()

    async def run(self) -> None:
        """For ever: a head that ends takes its workers with it, and all begin anew."""
        self._tell()
        for tree in self.trees:  # what an earlier keeper of this cluster left, where the kernel does not end it
            await asyncio.to_thread(processes.end, self.plan["uid"], 1.0, tree.name)
        await self._take_devices()
        while True:
            self._choose_ports()
            server = (
                await relay.serve(Path(self.plan["run_folder"], SOCKET), self._head_ports.dashboard)
                if self.fenced
                else None
            )
            head = asyncio.create_task(self._live(self.trees[0]))
            workers = [asyncio.create_task(self._keep(tree)) for tree in self.trees[1:]]
            await head
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for tree in self.trees[1:]:
                await asyncio.to_thread(processes.end, self.plan["uid"], 1.0, tree.name)
                self._ended(tree, None)
                self.states[tree.name].restarts = 1  # without a head they end: no loop of theirs
            if server is not None:
                server.close()
            await self._pause(self.trees[0])

    async def _keep(self, tree: Tree) -> None:
        """A worker: start again what ends."""
        while True:
            await self._head_answers()
            await self._live(tree)
            await self._pause(tree)

    async def _live(self, tree: Tree) -> None:
        """One life of a tree, from `ray start` to the end of its last process."""
        state = self.states[tree.name]
        arguments = command(self.plan["ray"], tree, self.ports[tree.name])
        with _start_log(tree) as log:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                env=self._environment(tree),
                cwd=tree.folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(signal.SIGTERM),
            )
        state.state, state.reason, state.message, state.started_at = "running", "", "", _now()
        self._say(f"{tree.name} started: pid {process.pid}")
        self._tell()
        code = await process.wait()
        await asyncio.to_thread(processes.end, self.plan["uid"], 1.0, tree.name)
        self._ended(tree, code)

    def _ended(self, tree: Tree, code: int | None) -> None:
        state = self.states[tree.name]
        if state.state != "running":
            return
        state.state, state.last_exit, state.last_ended_at = "terminated", code if code is not None else -15, _now()
        self._say(f"{tree.name} ended: exit code {state.last_exit}")
        self._tell()

    async def _pause(self, tree: Tree) -> None:
        """Longer with each start; the words are Kubernetes' own, so that the same rule reads them."""
        state = self.states[tree.name]
        state.restarts += 1
        pause = min(_LONGEST_PAUSE, float(2 ** (state.restarts - 1))) if state.restarts > 1 else 0.0
        if pause:
            state.state, state.reason = "waiting", "CrashLoopBackOff"
            state.message = f"back-off {pause:.0f}s restarting {tree.name}"
            self._tell()
        await asyncio.sleep(pause)

    async def _head_answers(self) -> None:
        """A worker that is started before GCS listens gives up after a while."""
        while not _listens(self._head_ports.gcs):  # noqa: ASYNC110 - another process's port: there is nothing to await
            await asyncio.sleep(_POLL)

    async def _take_devices(self) -> None:
        """Real GPUs, all at once; waits while others hold them."""
        for tree in self.trees:
            self.states[tree.name].devices = list(simulated_devices(tree))
        wanting = [tree for tree in self.trees if tree.gpus and not tree.simulated]
        count = sum(tree.gpus for tree in wanting)
        if not count:
            return
        among = await asyncio.to_thread(present)
        while not (got := self.devices.take(count, among)):
            for tree in wanting:
                self.states[tree.name].reason = "Unschedulable"
                self.states[tree.name].message = (
                    f"0/1 nodes are available: 1 Insufficient GPUs: {count} are asked for, this machine has "
                    f"{len(among)} and other clusters hold some"
                )
            self._tell()
            await asyncio.sleep(1.0)
        for tree in wanting:
            state = self.states[tree.name]
            state.devices, got = got[: tree.gpus], got[tree.gpus :]
            state.reason = state.message = ""

    def _environment(self, tree: Tree) -> dict[str, str]:
        return environment(
            tree,
            uid=self.plan["uid"],
            folder=self.plan["folder"],
            devices=self.states[tree.name].devices,
            fenced=self.fenced,
            token_file=self.plan["token_file"] if self.plan["token"] or not self.fenced else None,
        )

    def _choose_ports(self) -> None:
        if self.fenced:
            self.ports = {tree.name: Ports(agent=AGENTS + tree.index) for tree in self.trees}
            return
        gcs, dashboard, client, *agents = _free_ports(3 + len(self.trees))
        self.ports = {
            tree.name: Ports(gcs=gcs, dashboard=dashboard, client=client, agent=agent)
            for tree, agent in zip(self.trees, agents, strict=True)
        }
        self._say(
            f"NOT fenced off ({self.why_not_fenced}): GCS listens on all interfaces, port {gcs}, and asks for the token"
        )

    @property
    def _head_ports(self) -> Ports:
        return self.ports[self.trees[0].name]

    def _tell(self) -> None:
        """Atomically: readers never see half a status."""
        pid = os.getpid()
        told = {
            "pid": pid,
            "started": processes.started(pid),
            "fenced": self.fenced,
            "why_not_fenced": self.why_not_fenced,
            "dashboard_port": self._head_ports.dashboard,
            "ports": sorted(
                {
                    port
                    for ports in self.ports.values()
                    for port in (ports.gcs, ports.dashboard, ports.client, ports.agent)
                }
            ),
            "trees": {name: state.__dict__ for name, state in self.states.items()},
        }
        fresh = self.folder / f"{STATUS}.new"
        fresh.write_text(json.dumps(told))
        fresh.replace(self.folder / STATUS)

    def _say(self, text: str) -> None:
        sys.stdout.write(f"{_now()} {text}\n")
        sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Keep until killed. A second keeper of the same cluster ends at once."""
    folder = Path((arguments or sys.argv[1:])[0])
    with (folder / LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        keeper = _fenced(folder)
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(keeper.run())
    return 0


def _fenced(folder: Path) -> Keeper:
    wanted = json.loads((folder / PLAN).read_text())["fence"]
    if not wanted:
        return Keeper(folder, fenced=False, why_not_fenced="the connection says so")
    try:
        fence()
    except OSError as error:
        return Keeper(folder, fenced=False, why_not_fenced=str(error))
    return Keeper(folder, fenced=True)


def _start_log(tree: Tree) -> IO[bytes]:
    path = Path(tree.folder)
    Path(temporary(tree)).mkdir(parents=True, exist_ok=True)
    return (path / "start.log").open("ab")


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _free_ports(count: int) -> list[int]:
    """Ports that nobody uses now; held together, so that they differ."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


if __name__ == "__main__":
    sys.exit(main())
