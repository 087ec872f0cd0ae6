"""Faults inside one pod, made from the host and undone with it: a mount read-only, names unresolved, a slow link; and
an image that differs from what was asked for.

Standard library only. Touches only containers of the testbed's own pods, found by their cgroup.
"""

import ctypes
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.client import Json
from testbed.errors import TestbedError
from testbed.faults import Done
from testbed.faults_pods import PodProcess, processes
from testbed.imagestore import NAMESPACE
from testbed.paths import Layout

_REMOUNT, _BIND, _READ_ONLY, _NEWNS = 32, 4096, 1, 0x20000
_NOBODY_THERE = "nameserver 10.99.0.250\noptions timeout:30 attempts:1\n"  # of the testbed's own network, unused


def make_read_only(pod: Json, path: str, container: str) -> Done:
    """What the container has mounted at `path` can no longer be written there; other pods write on."""
    process = _first(pod, container)
    _remount(process, path, _READ_ONLY)
    what = f"{path} of {_named(pod)} is read-only"
    return Done(what, None, lambda: _remount(process, path, 0))


def break_dns(pod: Json, container: str) -> Done:
    """The pod asks a resolver that does not answer: names hang, addresses work."""
    file = Path("/proc", str(_first(pod, container).pid), "root", "etc", "resolv.conf")
    before = file.read_text()
    file.write_text(_NOBODY_THERE)
    return Done(f"{_named(pod)} resolves no name", None, lambda: file.write_text(before))


def slow_link(pod: Json, container: str, mbit: int) -> Done:
    """What is sent to the pod arrives at `mbit` megabits per second; what it sends itself is as fast as before."""
    told = _run("nsenter", f"--net=/proc/{_first(pod, container).pid}/ns/net", "ip", "-o", "link", "show", "eth0")
    index = told.partition("@if")[2].partition(":")[0]  # of the other end of its cable, which is the host's
    cable = next(line for line in _run("ip", "-o", "link").splitlines() if line.startswith(f"{index}: "))
    name = cable.split()[1].partition("@")[0]
    limit = ("tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "400ms")
    _run("tc", "qdisc", "add", "dev", name, "root", *limit)
    what = f"what is sent to {_named(pod)} arrives at {mbit} Mbit/s"
    return Done(what, None, lambda: _run("tc", "qdisc", "del", "dev", name, "root"))


def add_twin_image(layout: Layout, node: str, image: str, twin: str) -> Done:
    """On that node `twin` is the same layers as `image` under another ID, as a rebuilt tag is."""
    socket = layout.containerd_socket(node)
    target = next(line.split()[2] for line in _ctr(socket, "images", "ls").splitlines() if line.split()[0] == image)
    manifest = json.loads(_ctr(socket, "content", "get", target))
    config = json.loads(_ctr(socket, "content", "get", manifest["config"]["digest"]))
    config["config"] = {**config["config"], "Labels": {"rayflight.dev/twin-of": image}}
    told = json.dumps(config).encode()
    manifest["config"] = {**manifest["config"], "digest": _digest(told), "size": len(told)}
    whole = json.dumps(manifest).encode()
    entry = {"mediaType": manifest.get("mediaType", "application/vnd.docker.distribution.manifest.v2+json")}
    entry |= {"digest": _digest(whole), "size": len(whole), "annotations": {"io.containerd.image.name": twin}}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
            _add(tar, "index.json", index)
            for data in (told, whole):
                _add(tar, f"blobs/sha256/{_digest(data).removeprefix('sha256:')}", data)
        file.flush()
        _ctr(socket, "images", "import", "--all-platforms", file.name)
    # CRI adds a name of its own for what it sees: the ID.
    return Done(
        f"{node} has {twin}, a twin of {image}", None, lambda: _ctr(socket, "images", "rm", twin, _digest(told))
    )


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _ctr(socket: Path, *arguments: str) -> str:
    return _run("ctr", f"--address={socket}", f"--namespace={NAMESPACE}", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise TestbedError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def _first(pod: Json, container: str) -> PodProcess:
    found = sorted((it for it in processes(pod) if it.container == container), key=lambda it: it.started)
    if not found:
        raise TestbedError(f"container {container} of {_named(pod)} has no process")
    return found[0]


def _named(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _remount(process: PodProcess, path: str, flag: int) -> None:
    """In the container's mount namespace, by a process of its own: nobody comes back from there."""
    program: Sequence[str] = (sys.executable, "-m", "testbed.faults_inside", str(process.pid), path, str(flag))
    done = subprocess.run(program, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode != 0:
        raise TestbedError(f"{path} of process {process.pid} could not be mounted again: {done.stderr.strip()[-300:]}")


def _main(pid: str, path: str, flag: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{pid}/ns/mnt").open("rb") as namespace:
        failed = libc.setns(namespace.fileno(), _NEWNS)
    failed = failed or libc.mount(None, path.encode(), None, _REMOUNT | _BIND | int(flag), None)
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    _main(*sys.argv[1:4])
