"""Make the root file system of the Ray image: Debian's CPU PyTorch by debootstrap, Ray from the Python index.

Standard library only. Runs apt's and Python's ordinary clients against whatever mirror and index this machine is set
up for; no address stands here. Works below one directory that it is given and leaves no mount behind: debootstrap
runs in a mount namespace of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.build import Say
from testbed.errors import TestbedError

RAY_VERSION = "2.60.0"
SUITE = "trixie"  # the Debian release whose PyTorch (2.6, CPU, gloo) and Python (3.13) the image uses
PYTHON = "3.13"
UV_VERSION = "0.13.9"
# wget: KubeRay's probes; procps: Ray's own scripts; iproute2 and curl: for people in a shell.
PACKAGES = ("ca-certificates", "curl", "iproute2", "procps", "python3-torch", "wget")
REQUIREMENTS = (f"ray[default,train]=={RAY_VERSION}",)
# Every step in the new root dies with this process, its children and mounts with it, also on kill -9:
# otherwise an orphaned debootstrap would write into the next attempt.
CONTAINED = (
    *("setpriv", "--pdeathsig", "KILL", "--"),
    *("unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation", "private", "--mount-proc"),
)
DIST_PACKAGES = f"usr/local/lib/python{PYTHON}/dist-packages"


def make_rootfs(root: Path, cache: Path, log: Path, say: Say) -> None:
    """Fill `root` (which must not exist) with Debian, PyTorch and Ray."""
    say(f"Ray image: debootstrap {SUITE} with PyTorch (about 90 s)")
    debootstrap(root, log)
    say(f"Ray image: installing {' '.join(REQUIREMENTS)}")
    _install_ray(root, cache, log)
    say("Ray image: compiling Python files, so that no pod has to")
    compile_all = f"import compileall; compileall.compile_dir('/{DIST_PACKAGES}', quiet=2, workers=0)"
    run([*CONTAINED, "chroot", str(root), "/usr/bin/python3", "-c", compile_all], log, "compile Ray's Python files")
    check = "import ray.train, torch.distributed as d; print(ray.__version__, d.is_gloo_available())"
    run(
        [*CONTAINED, "chroot", str(root), "/usr/bin/python3", "-c", check],
        log,
        "import Ray and PyTorch inside the image",
    )


def debootstrap(root: Path, log: Path, *, suite: str = SUITE, packages: Sequence[str] = PACKAGES) -> None:
    """Fill `root` with a Debian of these packages."""
    if shutil.which("debootstrap", path=_path()) is None:
        raise TestbedError("debootstrap is not installed; apt-get install debootstrap, then run it again")
    mirror = debian_mirror(_apt_sites())
    command = [
        *CONTAINED,
        *("debootstrap", "--variant=minbase", f"--include={','.join(packages)}"),
        *(suite, str(root), *([mirror, *_script(suite, root.parent)] if mirror else [])),
    ]
    run(command, log, "debootstrap", _apt_proxy())


def _script(suite: str, scratch: Path) -> list[str]:
    """Return debootstrap's script for the suite: none where it knows the suite, else a copy of its own for sid."""
    scripts = Path("/usr/share/debootstrap/scripts")
    if (scripts / suite).exists():
        return []
    private = scratch / f"{suite}.script"
    shutil.copyfile(scripts / "sid", private)
    return [str(private)]


def _apt_sites() -> str:
    asked = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout


def debian_mirror(sites: str) -> str | None:
    """Pick the main Debian archive from lines of `SITE RELEASE`; None leaves the choice to debootstrap."""
    releases = r"(oldoldstable|oldstable|stable|testing|sid|bullseye|bookworm|trixie|forky)"
    for line in sites.splitlines():
        site, _, release = line.strip().partition(" ")
        if re.fullmatch(releases, release) and site.startswith(("http://", "https://")) and "security" not in site:
            return site
    return None


def _apt_proxy() -> dict[str, str]:
    """Hand apt's proxy on: debootstrap downloads with wget, which does not read apt's configuration."""
    names = {"Acquire::http::Proxy": "http_proxy", "Acquire::https::Proxy": "https_proxy"}
    found: dict[str, str] = {}
    for apt_name, name in names.items():
        asked = subprocess.run(["apt-config", "shell", "P", apt_name], capture_output=True, text=True, check=False)
        value = asked.stdout.strip().removeprefix("P=").strip("'\"")
        if value and value != "DIRECT":
            found[name] = value
    return found


def _install_ray(root: Path, cache: Path, log: Path) -> None:
    target = root / DIST_PACKAGES
    command = [*CONTAINED, find_uv(cache, log), "pip", "install", "--quiet", "--no-config", "--link-mode", "copy"]
    command += ["--python-version", PYTHON, "--only-binary", ":all:", "--target", str(target), *REQUIREMENTS]
    run(command, log, "uv pip install ray")
    _install_scripts(target / "bin", root / "usr/local/bin")


def _install_scripts(source: Path, target: Path) -> None:
    """Move console scripts onto PATH; uv wrote the build machine's interpreter into their first line."""
    target.mkdir(parents=True, exist_ok=True)
    for script in sorted(source.iterdir()):
        content = script.read_bytes()
        if content.startswith(b"#!"):
            content = with_image_shebang(content)
        (target / script.name).write_bytes(content)
        (target / script.name).chmod(0o755)
    shutil.rmtree(source)


def with_image_shebang(script: bytes) -> bytes:
    """Point a Python console script at the image's interpreter; other scripts stay as they are.

    >>> with_image_shebang(b"#!/opt/venv/bin/python3\\nimport sys\\n")
    b'#!/usr/bin/python3\\nimport sys\\n'

    A path too long for a first line is written as two lines for sh:

    >>> with_image_shebang(b"#!/bin/sh\\n'''exec' /very/long/python3 \\"$0\\" \\"$@\\"\\n' '''\\nimport sys\\n")
    b'#!/usr/bin/python3\\nimport sys\\n'
    """
    lines = script.split(b"\n")
    if lines[0] == b"#!/bin/sh" and len(lines) > 2 and lines[1].startswith(b"'''exec'"):
        return b"\n".join([b"#!/usr/bin/python3", *lines[3:]])
    if b"python" in lines[0]:
        return b"\n".join([b"#!/usr/bin/python3", *lines[1:]])
    return script


def find_uv(cache: Path, log: Path) -> str:
    """Return uv: the one on PATH, or one of a known version installed below the cache."""
    on_path = shutil.which("uv")
    if on_path:
        return on_path
    home = cache / f"uv-{UV_VERSION}"
    if not (home / "bin/uv").exists():
        fresh = cache / f"uv-{UV_VERSION}.{os.getpid()}"
        run([sys.executable, "-m", "venv", str(fresh)], log, "make a venv for uv (apt-get install python3-venv)")
        run([str(fresh / "bin/pip"), "install", "--quiet", f"uv=={UV_VERSION}"], log, "pip install uv")
        shutil.rmtree(home, ignore_errors=True)
        fresh.rename(home)  # uv itself is a native program: it does not mind that its venv moved
    return str(home / "bin/uv")


def _path() -> str:
    """PATH with the folders of root's tools, which `su` without a dash leaves out."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def run(command: Sequence[str], log: Path, step: str, environment: Mapping[str, str] | None = None) -> None:
    """Run one step with its output in `log`; a failure names the step and shows the end of the log."""
    with log.open("ab") as output:
        output.write(f"== {step}\n".encode())
        output.flush()
        env = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": _path(), **(environment or {})}
        try:
            done = subprocess.run(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=env, check=False)
        except FileNotFoundError as missing:
            raise TestbedError(f"{step}: {missing.filename} is not installed") from missing
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
        raise TestbedError(
            f"{step} failed with exit code {done.returncode}; the whole log is {log}, it ends with:\n{tail}"
        )
