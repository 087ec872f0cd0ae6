"""Images of the nodes without a registry: imported once into a containerd of their own, then lent to every node.

The store in the cache is never changed after it was made. A node gets its own databases (copies) and its own content
and snapshot folders whose entries are symbolic links into the store: what containerd adds or removes later is the
node's alone, and a node begins every `up` with exactly the given images.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.build import exclusively
from testbed.errors import TestbedError
from testbed.process import clean_environment, end, wait_until

NAMESPACE = "k8s.io"
_CONTENT = Path("io.containerd.content.v1.content")
_SNAPSHOTS = Path("io.containerd.snapshotter.v1.overlayfs")
_METADATA = Path("io.containerd.metadata.v1.bolt")


def ensure(cache: Path, tars: Sequence[Path], say: Callable[[str], None]) -> Path:
    """The store that holds these image archives, made when the cache has none."""
    store = cache / "images" / f"store-{_key(tars)}"
    if not store.is_dir():
        with exclusively(cache / "locks" / "images.lock"):
            if not store.is_dir():
                _make(store, tars, say)
    return store


def lend(store: Path, root: Path) -> None:
    """Make `root` a containerd root with the images of the store; what is there already is kept."""
    if (root / _METADATA / "meta.db").exists():
        return
    for folder in (_CONTENT / "blobs" / "sha256", _SNAPSHOTS / "snapshots"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for entry in (store / folder).iterdir():
            link = root / folder / entry.name
            if not link.is_symlink():
                link.symlink_to(entry)
    shutil.copyfile(store / _SNAPSHOTS / "metadata.db", root / _SNAPSHOTS / "metadata.db")
    (root / _METADATA).mkdir(parents=True, exist_ok=True)
    # Copied last and renamed: its presence says that the root is complete.
    unfinished = root / _METADATA / "meta.db.new"
    shutil.copyfile(store / _METADATA / "meta.db", unfinished)
    unfinished.rename(root / _METADATA / "meta.db")


def _key(tars: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for tar in sorted(tars):
        status = tar.stat()
        digest.update(f"{tar.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _make(store: Path, tars: Sequence[Path], say: Callable[[str], None]) -> None:
    unfinished = store.with_name(store.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with _containerd(unfinished) as socket:
        for tar in tars:
            say(f"importing image {tar.name} (about 50 s for 2 GB)")
            begun = time.monotonic()
            _ctr(socket, "images", "import", str(tar))
            say(f"imported {tar.name} in {time.monotonic() - begun:.0f} s")
    unfinished.rename(store)


@contextmanager
def _containerd(root: Path) -> Iterator[Path]:
    """A containerd that lives as long as the block; its sockets lie beside the root and go with it."""
    runtime = root.with_name(root.name + ".run")
    shutil.rmtree(runtime, ignore_errors=True)
    runtime.mkdir()
    socket, config = runtime / "c.sock", runtime / "config.toml"
    config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
    command = ["setpriv", "--pdeathsig", "KILL", "--", "containerd", f"--config={config}", f"--root={root}"]
    with (runtime / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--state={runtime}/state", f"--address={socket}"],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=clean_environment({}),
        )
    try:
        if not wait_until(lambda: socket.exists() and _answers(socket), 30):
            raise TestbedError(f"containerd did not start for the image import: {(runtime / 'log').read_text()[-500:]}")
        yield socket
    finally:
        end([process.pid], grace=10)
        process.wait()
        shutil.rmtree(runtime)


def _answers(socket: Path) -> bool:
    return subprocess.run(["ctr", f"--address={socket}", "version"], capture_output=True).returncode == 0


def _ctr(socket: Path, *arguments: str) -> None:
    command = ["ctr", f"--address={socket}", f"--namespace={NAMESPACE}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": "/var/tmp"})
    if done.returncode != 0:
        raise TestbedError(f"`ctr {' '.join(arguments)}` failed: {done.stderr.strip()[-500:]}")
