"""The command line of the testbed: reads arguments, calls, prints. Decides nothing."""

import argparse
import sys
import time
from pathlib import Path

from testbed import api, build
from testbed.errors import TestbedError
from testbed.paths import Layout


class Clock:
    """Prints what is done, with the seconds since the command began."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def __call__(self, message: str) -> None:
        print(f"[{time.monotonic() - self._begun:6.1f} s] {message}", flush=True)


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="python -m testbed", description=__doc__)
    verbs = root.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="build what is missing and start it; does nothing when it is up")
    up.add_argument("--kuberay", default=build.KUBERAY_VERSIONS[0], choices=build.KUBERAY_VERSIONS)
    down = verbs.add_parser("down", help="stop everything and leave the host as it was")
    for verb in (up, down):
        verb.add_argument("--api-only", action="store_true", help="etcd and the API server alone; no root needed")
        verb.add_argument("--state-dir", type=Path, help="of an API-only testbed")
    return root


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    say = Clock()
    try:
        return _run(options, say)
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace, say: Clock) -> int:
    layout = Layout.api_only(options.state_dir)
    with build.exclusively(layout.lock):
        if options.verb == "up":
            server = api.start(layout, options.kuberay, say)
            say(f"API server ready; export KUBECONFIG={server.kubeconfig}")
        else:
            api.stop(layout)
            say("down")
    return 0
