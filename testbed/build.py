"""Go programs of the testbed, built from Go modules and kept in the cache by what went into them.

Builds and reads the module cache; starts nothing that stays. The key of a build is its go.mod, go.sum, own sources,
link flags and the Go version, so that a changed module is built again and an unchanged one never.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import TestbedError, Unsupported
from testbed.paths import SOURCES

Say = Callable[[str], None]

KUBERNETES_VERSION = "v1.36.3"
KUBERAY_VERSIONS = ("1.6.0", "1.5.0")
KUBE_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet")

KUEUE_VERSION = "0.17.0"
_KUEUE_MODULE = "sigs.k8s.io/kueue"
_KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
# Without a version in the binary Kubernetes calls itself v0.0.0-master, and clients that compare versions refuse it.
_VERSION_FLAGS = " ".join(
    f"-X k8s.io/component-base/version.{name}={value}"
    for name, value in (
        ("gitVersion", KUBERNETES_VERSION),
        ("gitMajor", "1"),
        ("gitMinor", "36"),
        ("gitCommit", "0000000000000000000000000000000000000000"),
        ("gitTreeState", "archive"),
    )
)


@dataclass(frozen=True)
class Program:
    """One Go module folder and the packages to build in it."""

    folder: str
    packages: tuple[str, ...]
    output: str | None  # file name when there is one package; None: one file per package, named after it
    flags: str = ""
    expect: str = ""  # what a cold build takes, for the announcement


KUBERNETES = Program(
    "kubernetes", ("./cmd/kube", "./cmd/etcd", "./cmd/kubectl"), None, _VERSION_FLAGS, "about 4 to 9 minutes"
)
COREDNS = Program("coredns", (".",), "coredns", "", "about 1 minute")
# Two programs in one folder: deviceplugin and pause (the program of the pause image).
DEVICE_PLUGIN = Program("deviceplugin", (".", "./cmd/pause"), None, "", "seconds")
KUEUE = Program("kueue", (f"{_KUEUE_MODULE}/cmd/kueue",), "kueue", "", "about 4 to 8 minutes")


def kuberay(version: str) -> Program:
    if version not in KUBERAY_VERSIONS:
        raise TestbedError(f"KubeRay {version} is not one the testbed builds; choose {' or '.join(KUBERAY_VERSIONS)}")
    return Program(f"kuberay-{version}", (_KUBERAY_MODULE,), "kuberay-operator", "", "about 1 to 4 minutes")


def exists(program: Program) -> bool:
    return (SOURCES / program.folder / "go.mod").is_file()


def build_key(folder: Path, packages: Sequence[str], flags: str, go_version: str) -> str:
    """Hash of everything that decides what the build makes."""
    digest = hashlib.sha256("\0".join((*packages, flags, go_version, "")).encode())
    for path in sorted([folder / "go.mod", folder / "go.sum", *folder.rglob("*.go"), *folder.rglob("*.sh")]):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def ensure(program: Program, cache: Path, say: Say) -> Path:
    """Folder with the built program(s); builds them when the cache has none for these sources."""
    source = SOURCES / program.folder
    target = (
        cache
        / "bin"
        / f"{program.folder}-{build_key(source, program.packages, program.flags, _go('env', 'GOVERSION'))}"
    )
    if target.is_dir():
        return target
    with exclusively(cache / "locks" / f"build-{program.folder}.lock"):
        if not target.is_dir():
            _build(program, source, target, say)
    return target


def ensure_kubernetes(cache: Path, say: Say) -> Path:
    """Folder with etcd, kubectl and every Kubernetes component under its own name."""
    folder = ensure(KUBERNETES, cache, say)
    for name in KUBE_COMPONENTS:
        if not (folder / name).is_symlink():
            temporary = folder / f".{name}.{os.getpid()}"
            temporary.symlink_to("kube")
            temporary.rename(folder / name)
    return folder


def ensure_kuberay(version: str, cache: Path, say: Say) -> Path:
    """Folder with kuberay-operator."""
    return ensure(kuberay(version), cache, say)


def ensure_crds(version: str, cache: Path) -> Path:
    """Folder with the CRDs and the operator's role of a KubeRay release: needs the module, not the built operator."""
    program = kuberay(version)
    source = SOURCES / program.folder
    target = cache / "crds-and-role" / f"{program.folder}-{build_key(source, (), '', '')}"
    if not target.is_dir():
        module = Path(_go("mod", "download", "-json", _KUBERAY_MODULE, folder=source, field="Dir"))
        temporary = _scratch(target)
        for crd in sorted((module / "config" / "crd" / "bases").glob("*.yaml")):
            shutil.copyfile(crd, temporary / crd.name)
        shutil.copyfile(module / "config" / "rbac" / "role.yaml", temporary / "role.yaml")
        _publish(temporary, target)
    return target


def ensure_kueue_manifests(cache: Path) -> Path:
    """Folder with Kueue's CRDs, webhook configurations and roles, in a subfolder each."""
    source = SOURCES / KUEUE.folder
    target = cache / "kueue-manifests" / build_key(source, (), "", "")
    if not target.is_dir():
        module = Path(_go("mod", "download", "-json", _KUEUE_MODULE, folder=source, field="Dir"))
        components = module / "config" / "components"
        temporary = _scratch(target)
        for name, files in {
            "crds": sorted((components / "crd" / "bases").glob("*.yaml")),
            "webhooks": [components / "webhook" / "manifests.yaml"],
            "roles": [components / "rbac" / name for name in ("role.yaml", "metrics_auth_role.yaml")],
        }.items():
            (temporary / name).mkdir()
            for path in files:
                shutil.copyfile(path, temporary / name / path.name)
        _publish(temporary, target)
    return target


@contextmanager
def exclusively(lock: Path, say: Say | None = None) -> Iterator[None]:
    """Hold a lock file; the kernel releases it when this process dies, however it dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say is not None:
                say("waiting for another testbed command to finish")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(program: Program, source: Path, target: Path, say: Say) -> None:
    say(f"building {program.folder} ({program.expect} when the Go cache is cold)")
    _require_space(target.parent, gib=4)
    begun = time.monotonic()
    temporary = _scratch(target)
    output = temporary if program.output is None else temporary / program.output
    flags = f"-s -w {program.flags}".strip()
    command = ["build", "-trimpath", "-ldflags", flags, "-o", f"{output}{'/' if program.output is None else ''}"]
    _go(*command, *program.packages, folder=source)
    _publish(temporary, target)
    say(f"built {program.folder} in {time.monotonic() - begun:.0f} s")


def _scratch(target: Path) -> Path:
    temporary = target.parent / f".{target.name}.{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    return temporary


def _publish(temporary: Path, target: Path) -> None:
    """A reader never sees half a build: the folder appears whole or not at all."""
    try:
        temporary.rename(target)
    except OSError:
        shutil.rmtree(temporary)
        if not target.is_dir():
            raise


def _require_space(folder: Path, gib: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 2**30
    if free < gib:
        raise TestbedError(
            f"{folder} has {free:.1f} GiB free and the testbed needs {gib}; free some or set RAYFLIGHT_TESTBED_CACHE"
        )


def _go(*arguments: str, folder: Path = SOURCES, field: str | None = None) -> str:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        raise Unsupported("the testbed builds Kubernetes with Go, and no `go` is on PATH; install Go 1.26 or newer")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run([go, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        detail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise TestbedError(f"`go {arguments[0]}` failed in {folder}:\n{detail}")
    if field is None:
        return done.stdout.strip()
    return str(json.loads(done.stdout)[field])
