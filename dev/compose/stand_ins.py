"""Images under the public names that docker-compose.yaml asks for, made here: no registry is reached.

What is the same as in the public images and what is not stands at the top of each Dockerfile in ``stand_ins/``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from dev.airflow_home import ROOT
from dev.compose.docker import Docker
from testbed import image_rootfs

AIRFLOW = "docker.io/apache/airflow:3.3.2-python3.11"
POSTGRES = "docker.io/library/postgres:17.6-bookworm"
RAY = "docker.io/rayproject/ray:2.60.0-py311-gpu"
_DEBIAN = "debian:bookworm-slim"
_RECIPES = Path(__file__).parent / "stand_ins"
# How this machine reaches its registries, for the builds: the authorities that it trusts, and apt's and pip's settings.
_ROUTES = ("etc/ssl/certs/ca-certificates.crt", "etc/pip.conf")
# FAB wants an older one than Airflow alone would take.
_NOT_AS_LOCKED = "python-dateutil"


def make(docker: Docker, *names: str) -> None:
    """Make the stand-ins of these names (all of them takes about two minutes)."""
    with tempfile.TemporaryDirectory(prefix="rayflight-stand-ins-") as scratch:
        _debian(docker, Path(scratch))
        for name in names:
            folder = _RECIPES / re.split("[/:]", name.removeprefix("docker.io/"))[1]
            context = Path(scratch) / folder.name
            shutil.copytree(folder, context)
            (context / "constraints.txt").write_text(constraints((ROOT / "requirements.lock").read_text()))
            build_args = ("--build-arg", f"UV_VERSION={image_rootfs.UV_VERSION}")
            docker("build", "--network", "host", *build_args, "--tag", name, str(context))


def constraints(lock: str) -> str:
    """The lock without hashes.

    >>> print(constraints("a==1 ; python_version < '4' \\\\\\n    --hash=sha256:00\\npython-dateutil==4.0\\nb==2\\n"))
    a==1 ; python_version < '4'
    b==2
    """
    lines = (line.rstrip("\\ ") for line in lock.splitlines() if line[:1].isalnum())
    return "\n".join(line for line in lines if not line.startswith(_NOT_AS_LOCKED))


def _debian(docker: Docker, scratch: Path) -> None:
    root = scratch / "root"
    image_rootfs.debootstrap(root, scratch / "log", suite="bookworm", packages=("ca-certificates",))
    for path in (*_ROUTES, *(f"etc/apt/apt.conf.d/{file.name}" for file in Path("/etc/apt/apt.conf.d").iterdir())):
        if (source := Path("/") / path).is_file():
            shutil.copyfile(source, root / path)
    tar = ["tar", "--directory", str(root), "--create", "--exclude", "./dev/*", "."]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as packed:
        assert packed.stdout is not None
        docker("import", "-", _DEBIAN, stdin=packed.stdout.fileno())
