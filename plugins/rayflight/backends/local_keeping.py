"""Starts the keeper and the ender of a local cluster: processes of their own that outlive whoever started them.

Blocking: call from a thread. Waits for nothing but the start itself.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import rayflight
from rayflight.backends import local_plan
from rayflight.backends.local_access import LocalAccess
from rayflight.backends.local_ray import TOKEN
from rayflight.backends.local_state import PLAN, JsonObject, write_json
from rayflight.errors import InvalidSpec
from rayflight.keeper.commands import safe_path
from rayflight.keeper.processes import FOLDER, MARK

# What a person's shell gives to a training; everything else of Airflow's environment stays with Airflow.
_PASSED_ON = (
    "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "CUDA_HOME",
)  # fmt: skip
_OWNER = "owner"  # a file in each run folder: the cluster's uid and its state folder
RUN_FOLDERS = Path("/tmp")  # noqa: S108 - sockets below must have short names; each folder is made with mode 0700


def run_folders(access: LocalAccess) -> dict[str, Path]:
    """Ray's folders of this state folder, by the uid of their cluster."""
    found = {}
    for note in RUN_FOLDERS.glob(f"rf-*/{_OWNER}"):
        try:
            uid, _, folder = note.read_text().partition(" ")
        except OSError:  # somebody else's, or gone meanwhile
            continue
        if folder == str(access.folder):
            found[uid] = note.parent
    return found


def start_keeper(record_folder: Path, record: JsonObject, access: LocalAccess) -> None:
    """Write the plan and start. Harmless when a keeper of this cluster runs: the second one ends at once."""
    run_folder = Path(record["run_folder"])
    run_folder.mkdir(mode=0o700, exist_ok=True)
    (run_folder / _OWNER).write_text(f"{record['uid']} {access.folder}")
    token_file = record_folder / TOKEN
    if not token_file.exists():
        with os.fdopen(os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    base = environment(access)
    trees = local_plan.trees(record["object"], str(run_folder), shared_memory=shared_memory())
    plan = {
        "uid": record["uid"],
        "folder": str(access.folder),
        "run_folder": str(run_folder),
        "ray": access.ray,
        "fence": access.network == "fenced",
        "token": record["token"],
        "token_file": str(token_file),
        "trees": [local_plan.as_dict(tree, base) for tree in trees],
    }
    write_json(record_folder / PLAN, plan)
    marks = {MARK: str(record["uid"]), FOLDER: str(access.folder)}
    _start("rayflight.keeper.main", record_folder, {**base, **marks}, log=record_folder / "keeper.log")


def require_ray(access: LocalAccess) -> None:
    """Raises InvalidSpec where there is no Ray to start."""
    if not os.access(access.ray, os.X_OK):
        raise InvalidSpec(
            "Ray is not there:",
            which=access.ray,
            why="no such executable",
            next_step="install it there (pip install '.[local]' in a clone of Rayflight), or name another Ray in the "
            "connection's extra `ray`",
        )


def require_folder(access: LocalAccess) -> None:
    """Raises InvalidSpec where no record of a cluster could be written. Makes nothing."""
    there = next(path for path in (access.folder, *access.folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InvalidSpec(
            "Cannot write to the folder of local clusters",
            which=str(access.folder),
            why=f"{there} is {'not writable for this user' if there.is_dir() else 'no folder'}",
            next_step="name another in the connection's extra `folder`, or let the user of Airflow write there",
        )


def why_not_fenced(access: LocalAccess) -> str:
    """Why clusters do not get a network of their own; empty when they do. Asks the system by trying."""
    if access.network != "fenced":
        return "the connection says network: host"
    answer = subprocess.run(
        [sys.executable, "-m", "rayflight.keeper.fence"],
        env={**environment(access), "PYTHONPATH": _plugins()},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    return (answer.stdout or answer.stderr).strip() if answer.returncode else ""


def start_ender(record_folder: Path, access: LocalAccess) -> None:
    """End the cluster of this record. Without the mark: it would end itself."""
    _start("rayflight.keeper.ender", record_folder, environment(access), log=record_folder / "ender.log")


def is_held(lock: Path) -> bool:
    """Whether somebody holds that lock file now."""
    if not lock.exists():
        return False
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def environment(access: LocalAccess) -> dict[str, str]:
    """The base of every process of a local cluster."""
    given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**given, "PATH": safe_path(access.ray, os.environ.get("PATH", ""))}


def shared_memory() -> int | None:
    """Room in /dev/shm, where the object stores live; None where there is no such thing (macOS)."""
    try:
        status = os.statvfs("/dev/shm")  # noqa: S108 - the mount itself is the subject
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _start(module: str, record_folder: Path, given: Mapping[str, str], *, log: Path) -> None:
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - our own module, no shell
            [sys.executable, "-m", module, str(record_folder)],
            env={**given, "PYTHONPATH": _plugins()},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Whoever outlives it (a triggerer) must not keep a zombie.
    threading.Thread(target=process.wait, daemon=True).start()


def _plugins() -> str:
    """What makes our modules importable in a process that Airflow's plugin loader does not help."""
    return str(Path(rayflight.__file__).parents[1])
