"""The two images of the testbed, made without a registry and kept by content.

Standard library only. Both are docker-archive files below the cache; a name carries a hash of everything that decides
the content, so an unchanged recipe is never built twice and a changed one never reuses the old file.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed import build, image_rootfs, image_tar
from testbed.build import Say
from testbed.errors import TestbedError
from testbed.image_tar import ImageConfig

RAY_IMAGE = f"docker.io/rayflight/ray-sim:{image_rootfs.RAY_VERSION}"
PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
PAUSE_SOURCE = Path(__file__).parent / "go/deviceplugin/cmd/pause"

RAY_CONFIG = ImageConfig(
    tag=RAY_IMAGE,
    command=("/bin/bash",),
    environment={
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": "/root",
        # Debian builds PyTorch without libuv; without this every TCPStore fails with "use_libuv was requested".
        "USE_LIBUV": "0",
        # Nothing outside the box can be reached: without this the head tries to report at every start.
        "RAY_USAGE_STATS_ENABLED": "0",
    },
    working_dir="/root",
)
PAUSE_CONFIG = ImageConfig(tag=PAUSE_IMAGE, entrypoint=("/pause",))

# Left out of the image: nothing that runs there reads it, and every node pays for it at import (1.75 GB without this).
SKIPPED = (
    *("boot", "debootstrap", "etc/hostname", "var/cache/apt", "var/lib/apt/lists"),
    *("usr/include", "usr/lib/gcc", "usr/share/bash-completion", "usr/share/perl"),
    *("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man"),
    *("*.a", "*.h", "*.hpp", "*.cuh", "*.js.map", "*.css.map", "*.jar", "*.pxd"),
    "*/dist-packages/*/tests",
    # Debian's numpy: Ray's requirements bring a newer one, which comes first on the path.
    "usr/lib/python3/dist-packages/numpy",
    # Test programs of PyTorch (100 MB).
    *("usr/lib/libtorch-test", "*/torch/bin/*[tT]est*", "*/torch/bin/tutorial_*"),
    # What OpenMPI's transport drags in for AMD GPUs (220 MB): it looks for them at run time and does without.
    *("usr/lib/*/libLLVM*", "usr/lib/*/libamd_comgr*", "usr/lib/*/libamdhip64*", "usr/lib/*/libhsa-runtime*"),
    *("usr/lib/*/ucx/*rocm*", "*/pyarrow/*flight*"),
)
_SKIPPED = re.compile("|".join(fnmatch.translate(pattern) for pattern in SKIPPED))
# Mount points and places to write to: their content stays behind, they themselves have to exist.
EMPTY_DIRECTORIES = ("dev", "proc", "run", "sys", "tmp", "var/log")
RECIPE = 1  # raise it when the code below changes what is in an image without changing a constant above


def keeps(path: str) -> bool:
    """Say whether a path of the Ray root file system goes into the image."""
    return _SKIPPED.match(path) is None


def ray_image_path(cache: Path) -> Path:
    """Return where the Ray image of today's recipe lies, built or not."""
    parts = (RECIPE, image_rootfs.SUITE, image_rootfs.PACKAGES, image_rootfs.REQUIREMENTS, RAY_CONFIG)
    rules = (SKIPPED, EMPTY_DIRECTORIES, image_tar.architecture())
    return cache / f"ray-sim-{image_rootfs.RAY_VERSION}-{_key(repr((parts, rules)).encode())}.tar"


def pause_image_path(cache: Path) -> Path:
    """Return where the pause image of today's source lies, built or not."""
    source = (PAUSE_SOURCE / "main.go").read_bytes()
    return cache / f"pause-{_key(source + repr((RECIPE, PAUSE_CONFIG, image_tar.architecture())).encode())}.tar"


def build_ray_image(cache: Path, say: Say) -> Path:
    """Return the Ray image's archive, building it (2 to 3 minutes, root) when it is not in the cache."""
    return _build(ray_image_path(cache), say, _fill_ray)


def build_pause_image(cache: Path, say: Say) -> Path:
    """Return the pause image's archive, building it (seconds) when it is not in the cache."""
    return _build(pause_image_path(cache), say, _fill_pause)


def _key(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _build(target: Path, say: Say, fill: Callable[[Path, Path, Path, Say], None]) -> Path:
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(target) as scratch:
        if target.exists():  # somebody else built it while this process waited for the lock
            return target
        log = target.with_suffix(".log")
        log.unlink(missing_ok=True)
        fresh = scratch / target.name
        fill(fresh, scratch, log, say)
        fresh.rename(target)
    say(f"{target.name}: {target.stat().st_size / 1e6:.0f} MB")
    return target


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """Give an empty directory that one process at a time owns; one left by a killed build is removed first."""
    scratch = target.with_suffix(".build")
    with build.exclusively(target.parent / "locks" / f"{target.stem}.lock"):
        try:
            _remove(scratch)
            scratch.mkdir()
            yield scratch
        finally:
            _remove(scratch)


def _remove(tree: Path) -> None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split(" ")[1].startswith(f"{tree}/"):
            raise TestbedError(f"{line.split(' ')[1]} is still mounted; umount it, then run it again")
    if tree.exists():
        shutil.rmtree(tree)


def _fill_ray(fresh: Path, scratch: Path, log: Path, say: Say) -> None:
    root = scratch / "rootfs"
    image_rootfs.make_rootfs(root, fresh.parent.parent, log, say)
    say("Ray image: writing the archive")
    for name in EMPTY_DIRECTORIES:
        shutil.rmtree(root / name)
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    image_tar.write_docker_archive(fresh, root, RAY_CONFIG, keeps)


def _fill_pause(fresh: Path, scratch: Path, _log: Path, say: Say) -> None:
    program = build.ensure(build.DEVICE_PLUGIN, fresh.parent.parent, say) / "pause"
    root = scratch / "rootfs"
    root.mkdir()
    shutil.copy(program, root / "pause")
    image_tar.write_docker_archive(fresh, root, PAUSE_CONFIG)
