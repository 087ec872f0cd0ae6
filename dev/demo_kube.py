"""`make demo-kube`: fly one real training on a real Kubernetes and tell what happens. The exit code tells the truth.

0 only when the run succeeded, the training said SUCCEEDED, and nothing of the run is left on the cluster, counted here
and not by the product.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dev.airflow_client import Run
from dev.airflow_home import ROOT, Settings
from dev.airflow_instance import Airflow
from dev.cluster import Cluster
from dev.flight_view import GROUP, FlightView, fail
from dev.place import Place, named_or_testbed

INSTANCE = "demo"


def main(arguments: Sequence[str] | None = None) -> int:
    """Bring up, fly, tell, judge, clear away."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is cleared away then, too
    if options.kubeconfig and not options.image:
        return fail(
            "IMAGE is missing: name an image with Ray and PyTorch that the cluster can pull; see docs/clusters.md"
        )
    began = time.monotonic()
    with (
        named_or_testbed(options.kubeconfig, options.image, keep=options.keep) as place,
        _airflow(place, options) as airflow,
    ):
        if place.is_testbed:
            print("testbed of this machine: real Kubernetes, KubeRay and Ray; its GPUs are SIMULATED", flush=True)
        print(f"Airflow is healthy after {airflow.seconds_to_start:.1f} s: {airflow.home.url}", flush=True)
        if options.keep:
            print(f"  sign in as admin with {airflow.home.passwords['admin']}", flush=True)
        code = fly(airflow, Cluster(place.kubeconfig), options.dag, conf(options, place))
        print(f"{time.monotonic() - began:.0f} s in all", flush=True)
        if options.keep:
            _hold(airflow, place)
    return code


def fly(airflow: Airflow, cluster: Cluster, dag_id: str, form: dict[str, Any]) -> int:
    """One run from trigger to judgement."""
    client = airflow.client
    client.wait_for_dag(dag_id)
    run = client.trigger(dag_id, form)
    view = FlightView(client, run)
    view.say(f"run {run.run_id} of {dag_id} triggered with {json.dumps(form)}")
    state = view.follow()
    print(f"\n{view.stages()}\n", flush=True)
    problems = [] if state == "success" else [f"the run ended {state}: {view.cause()}"]
    problems += judge_training(client.xcom(run, f"{GROUP}.train"))
    problems += tell_landing(client.xcom(run, f"{GROUP}.tear_down"))
    problems += [f"left on the cluster: {thing}" for thing in cluster.owned_by(run, INSTANCE)]
    _tell_archive(airflow, run)
    if problems:
        return fail("\n".join(["NOT LANDED WELL", *(f"- {problem}" for problem in problems)]))
    print("LANDED: the training succeeded and nothing is left on the cluster", flush=True)
    return 0


def judge_training(trained: dict[str, Any] | None) -> list[str]:
    """Tell the result of the training; what is wrong with it."""
    if trained is None:
        return ["the training has no result"]
    print(f"training  submission {trained['submission_id']}: {trained['status']}, metrics {trained.get('metrics')}")
    return [] if trained["status"] == "SUCCEEDED" else [f"the training ended {trained['status']}"]


def tell_landing(landed: dict[str, Any] | None) -> list[str]:
    """Tell the proof of the teardown; what is wrong with it."""
    if landed is None:
        return ["the teardown has no result"]
    print(f"GPUs held {landed['gpu_seconds']:.1f} GPU-seconds; clusters {', '.join(landed['clusters']) or 'none'}")
    return [f"tear_down kept {thing}" for thing in landed.get("kept", ())]


def _tell_archive(airflow: Airflow, run: Run) -> None:
    planned = airflow.client.xcom(run, f"{GROUP}.plan") or {}
    collected = airflow.client.xcom(run, f"{GROUP}.collect_logs") or {}
    missing = collected.get("missing", ())
    print(f"archive   {planned.get('archive', 'none')} ({collected.get('files', 0)} files)")
    for gap in missing:
        print(f"          missing: {gap}")


def conf(options: argparse.Namespace, place: Place) -> dict[str, Any]:
    """What fills the trigger form."""
    form = {"image": place.image, "shape": options.shape}
    return form | {key: json.loads(value) for key, _, value in (item.partition("=") for item in options.set)}


def _airflow(place: Place, options: argparse.Namespace) -> Airflow:
    # The archive outlives the demo: the last line says where it is.
    archive = (options.archive or ROOT / ".demo" / "kube-archive").absolute()
    archive.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        connections={"kubernetes_default": place.connection(options.namespace)},
        rayflight={"instance": INSTANCE, "archive": archive.as_uri()},
    )
    return Airflow(settings)


def _hold(airflow: Airflow, place: Place) -> None:
    print(f"Airflow stays up at {airflow.home.url} until Ctrl-C; export KUBECONFIG={place.kubeconfig}", flush=True)
    if place.is_testbed:
        print("the testbed stays up after that; `python -m testbed down` ends it", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make demo-kube", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster, which has KubeRay, instead of the testbed")
    parser.add_argument("--image", help="image with Ray and PyTorch, for --kubeconfig")
    parser.add_argument("--namespace", default="default", help="default: %(default)s")
    parser.add_argument("--dag", default="train_ddp", help="default: %(default)s")
    parser.add_argument("--shape", default="testbed-2x1", help="shape in include/clusters (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="PARAM=JSON", help="more of the trigger form")
    parser.add_argument("--archive", type=Path, help="folder of the archive")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up, and Airflow until Ctrl-C")
    return parser


if __name__ == "__main__":
    sys.exit(main())
