"""Debian packages the full testbed needs: installed only when a program of theirs is missing."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.errors import TestbedError, Unsupported

CNI_PLUGINS = Path("/usr/lib/cni")
# package -> a file that says it is there
_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": str(CNI_PLUGINS / "bridge"),
    "iptables": "iptables-restore",
    "iproute2": "ip",
    "conntrack": "conntrack",
    "socat": "socat",
    "debootstrap": "debootstrap",
    "openssl": "openssl",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
}


# For the test of docker-compose.yaml.
DOCKER = {"docker.io": "dockerd", "docker-compose": "docker-compose", "debootstrap": "debootstrap"}


def ensure(say: Callable[[str], None], packages: Mapping[str, str] = _PACKAGES) -> None:
    """Install what is missing with apt-get; nothing is missing on a machine that ran this before."""
    missing = [package for package, proof in packages.items() if not _present(proof)]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise Unsupported(
            f"{', '.join(missing)} are needed and this system has no apt-get: install them, "
            f"CNI plugins in {CNI_PLUGINS}"
        )
    say(f"installing Debian packages: {' '.join(missing)}")
    begun = time.monotonic()
    _apt("update")
    _apt("install", "--yes", "--no-install-recommends", *missing)
    say(f"installed packages in {time.monotonic() - begun:.0f} s")


def _present(proof: str) -> bool:
    if proof.startswith("/"):
        return Path(proof).exists()
    return shutil.which(proof, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


def _apt(*arguments: str) -> None:
    # Packages with a service must not start it now: the testbed runs a containerd of its own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "SYSTEMD_OFFLINE": "1"}
    done = subprocess.run(["apt-get", "-q", *arguments], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        detail = (done.stderr or done.stdout).strip()[-600:]
        raise TestbedError(f"`apt-get {arguments[0]}` failed: {detail}")
