"""`make demo`, `make up`, `make down`: Rayflight on this machine alone: Airflow, the local backend, one real training.

Everything lies in ``.demo/`` of the project: Airflow's home, the clusters' records, the archive. What runs is found by
that folder (it stands in the environment of every process), so that an earlier start that was killed leaves nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from dev import quickstart_connection, quickstart_processes, quickstart_repair, quickstart_runs
from dev.airflow_client import AirflowClient, Run
from dev.airflow_home import ROOT, Settings
from dev.airflow_instance import Airflow
from dev.demo_kube import judge_training, tell_landing
from dev.flight_view import GROUP, FlightView, fail
from dev.quickstart_connection import FENCED
from dev.quickstart_processes import NotedAirflow, environment
from rayflight.backends.local import LocalBackend
from rayflight.backends.local_access import LocalAccess
from rayflight.errors import RayflightError

FOLDER = ROOT / ".demo"
DAG = "train_ddp"
INSTANCE = "demo"
_ROOM = 2 * 1024**3  # bytes: Airflow's database and logs, Ray's sessions


class Refused(Exception):
    """One clear sentence for whoever started it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when what was asked for is done."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is cleared away then, too
    try:
        _require_room(options.folder)
        return {"demo": demo, "up": up, "down": down}[options.command](options)
    except (Refused, RayflightError) as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return fail("interrupted")


def demo(options: argparse.Namespace) -> int:
    """One training from trigger to judgement, on an Airflow that is up, or on one for this flight alone."""
    began = time.monotonic()
    with _airflow(options) as (client, address):
        client.wait_for_dag(DAG)
        print(f"Airflow: {address}\n", flush=True)
        code = fly(client, options)
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)
    if not _up_file(options.folder).exists():
        print("Airflow is stopped again; `make up` starts it with this run in its history", flush=True)
    return code


def fly(client: AirflowClient, options: argparse.Namespace) -> int:
    """The run, told while it happens; the exit code of it."""
    form = {key: json.loads(value) for key, _, value in (item.partition("=") for item in options.set)}
    run = client.trigger(DAG, form)
    view = _view(client, run)
    state = view.follow()
    print(f"\n{view.stages()}\n", flush=True)
    problems = [] if state == "success" else [f"the run ended {state}: {view.cause()}"]
    problems += judge_training(client.xcom(run, f"{GROUP}.train"))
    planned = client.xcom(run, f"{GROUP}.plan") or {}
    if (planned.get("spec") or {}).get("simulated"):
        print("GPUs      SIMULATED: names in Ray, no devices; what is said of them below is as little real", flush=True)
    problems += tell_landing(client.xcom(run, f"{GROUP}.tear_down"))
    collected = client.xcom(run, f"{GROUP}.collect_logs") or {}
    print(f"archive   {planned.get('archive', 'none')} ({collected.get('files', 0)} files)", flush=True)
    problems += [f"missing from the archive: {gap}" for gap in collected.get("missing", ())]
    problems += left_behind(options.folder, str(planned.get("cluster", "")))
    if problems:
        return fail("\n".join(["NOT LANDED WELL", *(f"- {problem}" for problem in problems)]))
    print("LANDED: the training succeeded and no process of its cluster is left", flush=True)
    return 0


def left_behind(folder: Path, cluster: str) -> list[str]:
    """Counted here and not by the product: processes that name the cluster, and its record."""
    named = [
        process.pid
        for process in psutil.process_iter()
        if cluster and cluster in environment(process).get("RAYFLIGHT_LOCAL_POD", "")
    ]
    records = [str(path) for path in (folder / "clusters").glob(f"*/{cluster}")] if cluster else []
    return [f"process {pid} of the cluster still runs" for pid in named] + [
        f"{path} is still there" for path in records
    ]


def up(options: argparse.Namespace) -> int:
    """Airflow as a person uses it; stays until `make down`. What died of one that is up is started again."""
    if (told := _told(options.folder)) is not None:
        _require_port(options.port, told)
        done = _mended(options.folder, told)
        print(f"Airflow is up already{done}: {_address(told)}", flush=True)
    else:
        with _alone(options.folder):
            clear(options.folder)
            airflow = _make(options, keep=True)
            with airflow:
                airflow.client.wait_for_dag(DAG)
                _tell(options.folder, airflow)
        told = _told(options.folder) or _facts(airflow)
        print(f"Airflow is up: {_address(told)}", flush=True)
    with _signed_in(told) as client:
        said = quickstart_connection.settle(client, options.folder, options.network)
    print(*([said] if said else []), *_hints(options.folder), sep="\n", flush=True)
    return 0


def _hints(folder: Path) -> list[str]:
    return [
        "`make demo` flies a training on it, `make down` stops it",
        f"Airflow's own command for it: {_script(folder)} connections list",
    ]


def _require_port(port: int, told: Mapping[str, Any]) -> None:
    if port and not str(told["url"]).endswith(f":{port}"):
        raise Refused(
            f"Airflow is up already, and not on port {port}: {_address(told)}. "
            f"Next: use it there, or `make down` and then `make up PORT={port}`."
        )


def _mended(folder: Path, told: Mapping[str, Any]) -> str:
    """What was started again, in words. Raises Refused for what does not come to life."""
    again: list[str] = []
    if quickstart_repair.dead(folder / "airflow"):
        with _alone(folder):  # two that mend at once would start it twice
            again = quickstart_repair.restart(folder / "airflow", told["environment"])
            print(f"{', '.join(again)} had ended, starting again ...", flush=True)
    client = AirflowClient(told["url"], "admin", told["password"])
    silent = quickstart_repair.silent(folder / "airflow", client, again)
    client.close()
    if silent:
        raise Refused(
            f"Airflow at {told['url']} is up and not healthy: {silent}. "
            f"Next: see the logs in {folder / 'airflow' / 'processes'}, or `make down` and then `make up`."
        )
    return f", with {', '.join(again)} started again" if again else ""


def down(options: argparse.Namespace) -> int:
    """End Airflow, then every cluster of it; both are found by the folder."""
    ended, flights = clear(options.folder)
    did = f"ended {ended} processes of Airflow" if ended else "Airflow was not running"
    failed = (
        f"; {flights} run{'s' * (flights > 1)} that flew failed with it, clear one to fly it again" if flights else ""
    )
    print(f"{did}{failed}; no cluster is left", flush=True)
    return 0


def clear(folder: Path) -> tuple[int, int]:
    """End what runs of this folder, whoever started it and however that ended.

    How many processes of Airflow and how many runs it was.
    """
    for path in (_up_file(folder), _script(folder)):  # they hold secrets of what is ended now
        path.unlink(missing_ok=True)
    ended, left = quickstart_processes.end(folder / "airflow")
    if left:
        raise Refused(f"Processes {left} of Airflow do not end even on SIGKILL. Next: see what they wait for.")
    flights = quickstart_runs.end(folder / "airflow" / "airflow.db")
    if (folder / "clusters").is_dir():
        asyncio.run(_end_clusters(folder))
    return ended, flights


async def _end_clusters(folder: Path) -> None:
    """No Airflow runs: nothing owns a cluster."""
    clusters = folder / "clusters"
    async with LocalBackend(LocalAccess.from_extras({"folder": str(clusters)}, home=folder)) as backend:
        refs = [ref for name in _namespaces(clusters) for ref in await backend.find(name, "")]
        for ref in refs:
            await backend.delete(ref)
        for ref in refs:
            async for _ in backend.changes(ref, at_least_every=0.5):
                if not await backend.remains(ref):
                    break


def _namespaces(clusters: Path) -> list[str]:
    return [path.name for path in clusters.iterdir() if path.is_dir()]


@contextmanager
def _airflow(options: argparse.Namespace) -> Iterator[tuple[AirflowClient, str]]:
    told = _told(options.folder)
    if told is not None:
        _require_port(options.port, told)
        _mended(options.folder, told)
        with _signed_in(told) as client:
            if quickstart_connection.elsewhere(client):
                raise Refused(
                    f"Connection {quickstart_connection.ID} of the Airflow that is up leads away from this "
                    f"machine, where `make demo` flies. Next: trigger {DAG} at {told['url']}, or `make down`, "
                    f"then `make demo`."
                )
            yield client, _address(told)
        return
    with _alone(options.folder):
        clear(options.folder)
        try:
            with _make(options, keep=False) as airflow:
                yield airflow.client, _address(_facts(airflow))
        finally:  # a flight that was interrupted has its cluster still
            clear(options.folder)


@contextmanager
def _signed_in(told: Mapping[str, Any]) -> Iterator[AirflowClient]:
    client = AirflowClient(told["url"], "admin", told["password"])
    try:
        client.sign_in()
        yield client
    finally:
        client.close()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A second start clears the folder, and would end the flight of the first. The lock goes with its process."""
    with (folder / "lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"Another `make demo` or `make up` is at work in {folder}. "
                "Next: wait until it is done, or end it with `make down`."
            ) from None
        yield


def _make(options: argparse.Namespace, *, keep: bool) -> Airflow:
    folder: Path = options.folder
    for name in ("clusters", "archive"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if options.port and not _free(options.port):
        raise Refused(
            f"Port {options.port} is taken by another program. Next: choose another with PORT=..., or leave PORT out."
        )
    print("starting Airflow (SQLite, LocalExecutor) ...", flush=True)
    settings = Settings(
        port=options.port or None,
        # One that stays has its connection where a person can change it: quickstart_connection.settle.
        connections={}
        if keep
        else {quickstart_connection.ID: quickstart_connection.local(folder, options.network or FENCED)},
        rayflight={"instance": INSTANCE, "archive": (folder / "archive").as_uri()},
        environment={"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"},
    )
    return NotedAirflow(settings, directory=folder / "airflow", keep=keep)


def _view(client: AirflowClient, run: Run) -> FlightView:
    if sys.stdout.isatty():
        from dev.live_view import LiveView  # noqa: PLC0415 - rich is only for terminals

        return LiveView(client, run)
    return FlightView(client, run)


def _require_room(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        free = shutil.disk_usage(folder).free
        probe = folder / ".probe"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise Refused(
            f"Cannot write to {folder}: {error.strerror}. Next: use a clone in a folder that you may write to."
        ) from None
    if free < _ROOM:
        raise Refused(
            f"Only {free / 1024**3:.1f} GiB are free on the disk of {folder}, 2 GiB are needed. Next: make room."
        )


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _up_file(folder: Path) -> Path:
    return folder / "up.json"


def _facts(airflow: Airflow) -> dict[str, Any]:
    return {"url": airflow.home.url, "password": airflow.home.passwords["admin"], "environment": airflow.home.own}


def _tell(folder: Path, airflow: Airflow) -> None:
    """For later commands of ours, and for a person's `airflow`: both name secrets of this Airflow."""
    lines = ["#!/bin/sh", *(f"export {key}={shlex.quote(value)}" for key, value in airflow.home.own.items())]
    script = "\n".join([*lines, f'exec {shlex.quote(sys.executable)} -m airflow "$@"', ""])
    for path, mode, text in (
        (_up_file(folder), 0o600, json.dumps(_facts(airflow))),
        (_script(folder), 0o700, script),
    ):
        path.touch(mode=mode)
        path.write_text(text)


def _script(folder: Path) -> Path:
    return folder / "airflow.sh"


def _told(folder: Path) -> dict[str, Any] | None:
    """What `make up` left, if anything of that Airflow runs."""
    try:
        told: dict[str, Any] = json.loads(_up_file(folder).read_text())
    except FileNotFoundError:
        return None
    return told if "environment" in told and quickstart_repair.lives(folder / "airflow") else None


def _address(told: Mapping[str, Any]) -> str:
    return f"{told['url']}  (sign in as admin with {told['password']})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("command", choices=["demo", "up", "down"])
    parser.add_argument("--port", type=int, default=0, help="of Airflow's UI (default: a free one)")
    parser.add_argument("--set", action="append", default=[], metavar="PARAM=JSON", help="a field of the trigger form")
    parser.add_argument(
        "--network", choices=["fenced", "host"], help="host: trainings reach the network (default: fenced)"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where everything lies (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
