"""Where the demo, the benchmarks and the tests fly: the testbed of this machine, or any cluster that has KubeRay.

A testbed that this process brought up is taken down by it again; one that was up before is left as it was. Only one
process of a machine uses the testbed at a time: the guard is a lock that the kernel releases when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev.airflow_home import ROOT
from testbed.image import RAY_IMAGE
from testbed.paths import Layout

GUARD = Path(tempfile.gettempdir()) / "rayflight-testbed.guard"


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster to fly on: how it is reached, and the image with Ray and PyTorch that it can run."""

    kubeconfig: Path
    image: str
    is_testbed: bool

    def connection(self, namespace: str | None = None) -> dict[str, object]:
        """It as an Airflow connection."""
        extra = {"kube_config_path": str(self.kubeconfig)} | ({"namespace": namespace} if namespace else {})
        return {"conn_type": "kubernetes", "extra": extra}


@contextmanager
def borrow_testbed(*, keep: bool = False, kuberay: str | None = None) -> Iterator[Place]:
    """The testbed of this machine, for us alone; ``keep`` leaves it up whoever started it."""
    with _alone():
        was_up = _testbed("status", quiet=True) == 0
        arguments = ["up", *(["--kuberay", kuberay] if kuberay else [])]
        if _testbed(*arguments, quiet=was_up) != 0:
            raise RuntimeError("the testbed does not come up; see the lines above, or `python -m testbed logs`")
        try:
            yield Place(Layout.full().kubeconfig, RAY_IMAGE, is_testbed=True)
        finally:
            if not was_up and not keep:
                _testbed("down")


@contextmanager
def named_or_testbed(kubeconfig: Path | None, image: str, *, keep: bool) -> Iterator[Place]:
    """The cluster that a person named, or the testbed."""
    if kubeconfig:
        yield Place(kubeconfig.expanduser().absolute(), image, is_testbed=False)
        return
    with borrow_testbed(keep=keep) as place:
        yield place


def _testbed(*arguments: str, quiet: bool = False) -> int:
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run(
        [sys.executable, "-m", "testbed", *arguments], cwd=ROOT, stdout=output, check=False
    ).returncode


@contextmanager
def _alone() -> Iterator[None]:
    with GUARD.open("a+") as guard:
        begin = time.monotonic()
        while True:
            try:
                fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                guard.seek(0)
                holder = guard.read().strip()
                if time.monotonic() - begin < 1:
                    print(
                        f"waiting for the testbed, which process {holder or '(unknown)'} uses",
                        file=sys.stderr,
                        flush=True,
                    )
                time.sleep(2)
        guard.truncate(0)
        guard.write(str(os.getpid()))
        guard.flush()
        yield
