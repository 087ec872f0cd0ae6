"""The command line of the testbed: reads arguments, calls, prints. Decides nothing."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from testbed import api, build, cluster, faults_cli, host, kueue, kueue_objects, packages
from testbed.errors import TestbedError
from testbed.paths import Layout
from testbed.process import Processes

_API_ONLY_HELP = "etcd and the API server alone, with the KubeRay CRDs; no root needed"


class Clock:
    """Prints what is done, with the seconds since the command began."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def __call__(self, message: str) -> None:
        print(f"[{time.monotonic() - self._begun:6.1f} s] {message}", flush=True)


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="python -m testbed",
        description="A real Kubernetes with the real KubeRay here: nodes cpu-1, gpu-1, gpu-2 (simulated GPUs).",
    )
    verbs = root.add_subparsers(dest="verb", required=True, metavar="VERB")
    up = verbs.add_parser("up", help="build what is missing and start it; repairs what was killed")
    up.add_argument(
        "--kuberay", default=build.KUBERAY_VERSIONS[0], choices=build.KUBERAY_VERSIONS, help="default: %(default)s"
    )
    up.add_argument(
        "--kueue",
        action=argparse.BooleanOptionalAction,
        help=f"add Kueue v{build.KUEUE_VERSION} (minutes to build the first time), or take it out; default: as it is",
    )
    up.add_argument(
        "--kueue-pods-ready", type=int, metavar="SECONDS", help="Kueue's waitForPodsReady.timeout; default: off"
    )
    make = verbs.add_parser("build", help="only build what `up` would build: programs, images, nothing is started")
    make.add_argument("--kuberay", default=build.KUBERAY_VERSIONS[0], choices=build.KUBERAY_VERSIONS)
    make.add_argument("--kueue", action="store_true", help="Kueue, too")
    make.add_argument("--api-only", action="store_true", help="only what an API server of its own needs")
    down = verbs.add_parser("down", help="stop everything and leave the host as it was")
    status = verbs.add_parser("status", help="what runs and what is ready; exit code 3 when it is not all up")
    kubeconfig = verbs.add_parser("kubeconfig", help="print the path of the administrator's kubeconfig")
    shell = verbs.add_parser("shell", help="a shell, or one command, with kubectl and KUBECONFIG set")
    shell.add_argument("command", nargs=argparse.REMAINDER, help="-- COMMAND ARGUMENTS instead of a shell")
    logs = verbs.add_parser("logs", help="print the log of a component; without one, list them")
    logs.add_argument("component", nargs="?")
    logs.add_argument("-f", "--follow", action="store_true")
    for verb in (up, down, status, kubeconfig, shell, logs):
        verb.add_argument("--api-only", action="store_true", help=_API_ONLY_HELP)
        verb.add_argument("--state-dir", type=Path, help="of an API-only testbed (implies --api-only)")
    verbs.add_parser("purge", help="down, and delete everything that was built")
    faults_cli.add_fault_parsers(verbs)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    # `ip`, `iptables` and others are not on the PATH of every root shell.
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    try:
        return _VERBS[options.verb](options, _layout(options))
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("testbed: interrupted; `python -m testbed down` clears away what was started", file=sys.stderr)
        return 130


def _layout(options: argparse.Namespace) -> Layout:
    return Layout.api_only(options.state_dir) if _is_api_only(options) else Layout.full()


def _is_api_only(options: argparse.Namespace) -> bool:
    return getattr(options, "api_only", False) or getattr(options, "state_dir", None) is not None


def _up(options: argparse.Namespace, layout: Layout) -> int:
    say = Clock()
    with build.exclusively(layout.lock, say):
        if _is_api_only(options):
            api.start(layout, options.kuberay, say)
        else:
            cluster.up(layout, options.kuberay, say, _queueing(options))
    say(f"up with KubeRay {options.kuberay}; export KUBECONFIG={layout.kubeconfig}")
    return 0


def _queueing(options: argparse.Namespace) -> cluster.Queueing:
    seconds = options.kueue_pods_ready
    pods_ready = None if seconds is None else kueue_objects.PodsReady(seconds)
    return cluster.Queueing(True if pods_ready else options.kueue, pods_ready)


def _build(options: argparse.Namespace, layout: Layout) -> int:
    """Tests of an API server have time-outs that a first build of Kubernetes does not fit in."""
    say = Clock()
    if options.api_only:
        build.ensure_kubernetes(layout.cache, say)
        for version in build.KUBERAY_VERSIONS:
            build.ensure_crds(version, layout.cache)
    else:
        cluster.require_possible()
        packages.ensure(say)
        cluster.prepare(layout.cache, options.kuberay, say)
        if options.kueue:
            kueue.prepare(layout.cache, say)
    say("built")
    return 0


def _down(options: argparse.Namespace, layout: Layout) -> int:
    say = Clock()
    with build.exclusively(layout.lock, say):
        if _is_api_only(options):
            api.stop(layout)
            say("down")
        else:
            cluster.require_possible()
            cluster.down(layout, say)
    return 0


def _purge(options: argparse.Namespace, layout: Layout) -> int:
    _down(options, layout)
    host.remove_folder(layout.cache)
    print(f"deleted {layout.cache}")
    return 0


def _status(options: argparse.Namespace, layout: Layout) -> int:
    processes = Processes(layout.state, layout.run, layout.logs)
    names = processes.names()
    for name in names:
        pid = processes.pid(name)
        how = "PAUSED" if processes.is_paused(name) else "runs"
        print(f"{name:26} {'STOPPED' if pid is None else f'{how}, pid {pid}'}")
    if not names or all(processes.pid(name) is None for name in names):
        print("the testbed is down; `python -m testbed up` starts it")
        return 3
    missing = [] if _is_api_only(options) else cluster.unready(cluster.admin(layout))
    missing += [f"{name} does not run" for name in names if processes.pid(name) is None]
    print(f"KUBECONFIG={layout.kubeconfig}")
    print(f"not ready: {'; '.join(missing)}" if missing else "ready")
    return 3 if missing else 0


def _kubeconfig(_options: argparse.Namespace, layout: Layout) -> int:
    _require_up(layout)
    print(layout.kubeconfig)
    return 0


def _shell(options: argparse.Namespace, layout: Layout) -> int:
    _require_up(layout)
    binaries = build.ensure_kubernetes(layout.cache, Clock())
    path = f"{binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {**os.environ, "KUBECONFIG": str(layout.kubeconfig), "PATH": path}
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        print(f"kubectl speaks to the testbed here; leave with exit. KUBECONFIG={layout.kubeconfig}")
    return subprocess.run(command or [os.environ.get("SHELL") or "/bin/sh"], env=environment).returncode


def _logs(options: argparse.Namespace, layout: Layout) -> int:
    processes = Processes(layout.state, layout.run, layout.logs)
    log = processes.log(options.component or "")
    if options.component is None or not log.is_file():
        folder = layout.logs if layout.logs.is_dir() else layout.cache / "last-logs"
        known = ", ".join(sorted(path.stem for path in folder.glob("*.log"))) or "none yet"
        wrong = f"no component {options.component!r}; " if options.component else ""
        raise TestbedError(f"{wrong}logs in {folder}: {known}")
    follow = ["-F"] if options.follow else []
    return subprocess.run(["tail", "-n", "+1", *follow, str(log)]).returncode


def _require_up(layout: Layout) -> None:
    if not layout.kubeconfig.exists():
        raise TestbedError("the testbed is not up; `python -m testbed up` starts it")


_VERBS = {
    "up": _up,
    "build": _build,
    "down": _down,
    "purge": _purge,
    "status": _status,
    "kubeconfig": _kubeconfig,
    "shell": _shell,
    "logs": _logs,
    "fault": faults_cli.run,
}
