"""`make drills`: provoke every failure path for real and check what Rayflight says of it.

The exit code is 0 only when every drill named its cause in time, nothing was left behind, and the median was kept.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from dev.airflow_home import ROOT, Settings
from dev.airflow_instance import Airflow
from dev.drills import queueing, results
from dev.drills.answers import DAG
from dev.drills.flying import INSTANCE, DrillFlight, Hangar
from dev.drills.observer import Observer
from dev.drills.receiver import CONNECTION, receiving
from dev.drills.results import Row
from dev.drills.table import Drill, flights, read
from dev.flight_view import fail
from dev.machine import machine
from dev.place import Place, named_or_testbed
from dev.queues import real_kueue
from testbed.faults import Faults
from testbed.paths import Layout

FIGURES = ROOT / "build" / "drills.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Choose, fly, tell, judge."""
    given = options(arguments)
    signal.signal(signal.SIGTERM, _end)
    if problem := _refused(given):
        return fail(problem)
    drills = chosen(read(), given)
    if not drills:
        return fail("no such drill; `python -m dev.drills --list` names them")
    if given.list:
        print("\n".join(f"{drill.name:28} {', '.join(drill.cause) or 'ends well'}" for drill in drills))
        return 0
    began = time.monotonic()
    with hangar(given) as made:
        print(f"{len(drills)} drills on {machine()}", flush=True)
        rows = fly(made, drills, parallel=given.parallel, figures=given.figures, minutes=given.minutes)
    every = results.load(given.figures)
    print(f"\n{results.shown(rows)}\n\n{time.monotonic() - began:.0f} s in all; figures in {given.figures}")
    return verdict(every if given.together else rows)


def _end(*_: object) -> None:
    """Everything is cleared away then, too; whoever asks twice does not break that off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def verdict(rows: Sequence[Row]) -> int:
    """Say the figures; 0 when they are as they must be."""
    figures = results.summary(rows)
    print("\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()))
    slow = (figures["median"] or 0) > results.MEDIAN_GOAL or (figures["worst"] or 0) > results.WORST_GOAL
    return 1 if slow or figures["right"] < figures["drills"] else 0


def fly(
    hangar: Hangar, drills: Sequence[Drill], *, parallel: int, figures: Path | None = None, minutes: float = 60
) -> list[Row]:
    """Several at once; then one by one those that would disturb others. None begins after so many minutes."""
    rows: list[Row] = []
    until, mine = time.monotonic() + minutes * 60, threading.Lock()

    def one(group: Sequence[Drill]) -> None:
        if time.monotonic() > until:
            return
        found = _one(hangar, group)
        with mine:
            rows.extend(found)
            if figures:
                results.save(figures, found)

    pool = ThreadPoolExecutor(parallel)
    try:
        for _ in pool.map(one, [group for group in flights(drills) if not group[0].alone]):
            continue
    except BaseException:
        hangar.ended.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    for group in flights(drills):
        if group[0].alone:
            one(group)
    return sorted(rows, key=lambda row: [drill.name for drill in drills].index(row.drill))


def _one(hangar: Hangar, group: Sequence[Drill]) -> list[Row]:
    began = time.monotonic()
    try:
        rows = DrillFlight(hangar, group).fly()
    except Exception as error:  # noqa: BLE001 - one drill that breaks must not end the others; it is told as wrong
        rows = [Row(drill=drill.name, wrong=(f"the drill itself broke: {error!r}",)) for drill in group]
    for row in rows:
        how = f"{row.seconds:.1f} s" if row.seconds is not None else "no time"
        print(
            f"{row.drill}: {row.cause or 'nothing failed'}, {how} ({time.monotonic() - began:.0f} s)"
            + "".join(f"\n  WRONG: {wrong}" for wrong in row.wrong),
            flush=True,
        )
    return rows


def chosen(drills: Sequence[Drill], given: argparse.Namespace) -> list[Drill]:
    """What the options name and the place allows."""
    named = [name for names in given.only for name in names.split(",")]
    found = [drill for drill in drills if not named or drill.name in named]
    if given.quick:
        found = [drill for drill in found if drill.quick]
    if given.kubeconfig:
        found = [drill for drill in found if drill.by_itself]
    return [drill for drill in found if drill.needs in ("", *given.having)]


@contextmanager
def hangar(given: argparse.Namespace) -> Iterator[Hangar]:
    """A place, an Airflow, an observer and a receiver of alerts, for the length of the block."""
    with ExitStack() as stack:
        place = stack.enter_context(named_or_testbed(given.kubeconfig, given.image, keep=given.keep))
        kueue = place.is_testbed and "kueue" in given.having
        if kueue:
            stack.enter_context(real_kueue(pods_ready=queueing.PODS_READY))
        faults = Faults(Layout.full()) if place.is_testbed else None
        flaky = stack.enter_context(faults.flaky_proxy()) if faults else None
        alerts = stack.enter_context(receiving())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rayflight-drills-")))
        connections = {
            "kubernetes_default": place.connection(),
            "kubernetes_wrong_token": Place(_wrong_token(place, folder), place.image, is_testbed=False).connection(),
            CONNECTION: alerts.connection,
        }
        if flaky:
            connections["kubernetes_flaky"] = Place(flaky.kubeconfig, place.image, is_testbed=True).connection()
        settings = Settings(
            parallelism=8,
            connections=connections,
            rayflight={"instance": INSTANCE, "archive": (given.archive or folder / "archive").absolute().as_uri()},
        )
        airflow = stack.enter_context(Airflow(settings))
        airflow.client.wait_for_dag(DAG)
        observer = stack.enter_context(
            Observer(
                place.kubeconfig,
                given.namespace if given.kubeconfig else "",
                more=queueing.WATCHED if kueue else {},
            )
        )
        yield Hangar(
            client=airflow.client,
            place=place,
            observer=observer,
            alerts=alerts,
            faults=faults,
            flaky=flaky,
            namespace=given.namespace if given.kubeconfig else "",
            shape=given.shape,
        )


def _wrong_token(place: Place, folder: Path) -> Path:
    """The same API server, with a token that it does not know."""
    config = yaml.safe_load(place.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": "not-the-token"}
    file = folder / "wrong-token"
    file.write_text(yaml.safe_dump(config))
    return file


def _refused(given: argparse.Namespace) -> str:
    """Why it does not begin. A real cluster is only touched by somebody who says so twice."""
    if not given.kubeconfig or given.list:
        return ""
    if not (given.namespace and given.image):
        return "NAMESPACE and IMAGE are missing: name a namespace for drills alone, and an image with Ray"
    if given.confirm != given.namespace:
        return (
            f"The drills create clusters in namespace {given.namespace} of {given.kubeconfig} that are to "
            f"fail, and delete their pods. Confirm with CONFIRM={given.namespace}"
        )
    return ""


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="make drills", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the drills and what they must find")
    parser.add_argument("--only", action="append", default=[], metavar="NAME,NAME", help="these drills")
    parser.add_argument("--quick", action="store_true", help="the subset that runs for every change")
    parser.add_argument("--having", action="append", default=[], metavar="WHAT", help="what the testbed has: kueue")
    parser.add_argument("--parallel", type=int, default=2, help="flights at once (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="none begins later (default: %(default)g)")
    parser.add_argument("--kubeconfig", type=Path, help="a cluster that has KubeRay, instead of the testbed")
    parser.add_argument("--namespace", help="the namespace that may be used there")
    parser.add_argument("--image", help="image with Ray, for --kubeconfig")
    parser.add_argument("--confirm", help="the namespace once more, for --kubeconfig")
    parser.add_argument("--shape", default="testbed-2x1", help="shape that is spoilt (default: %(default)s)")
    parser.add_argument("--archive", type=Path, help="folder of the archive (default: a temporary one)")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="default: %(default)s")
    parser.add_argument("--together", action="store_true", help="judge with the drills that the figures had before")
    parser.add_argument("--keep", action="store_true", help="leave the testbed up")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
