"""One Airflow installation on disk: its directory, database, secrets, ports and environment. Starts no process.

Everything that two Airflows on one machine could fight for (ports, database, passwords, secrets) belongs to the home.
The migrated database is made once per lock file and copied, because migrating costs more than everything else here.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USERS = ("admin", "op", "viewer")  # each is named by its role
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What differs from one Airflow to another. ``connections`` are Airflow connections as JSON data, by id."""

    dag_folders: Sequence[Path] = (ROOT / "dags",)
    parallelism: int = 4
    port: int | None = None  # None: a free one
    connections: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    rayflight: Mapping[str, str] = field(default_factory=dict)  # section [rayflight] of the configuration
    environment: Mapping[str, str] = field(default_factory=dict)


class AirflowHome:
    """The directory of one Airflow and the environment in which its processes run."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.directory = directory.absolute()
        self.settings = settings
        self.port = settings.port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.passwords = {user: secrets.token_urlsafe(12) for user in USERS}
        self.own = self._own()
        self.environment = {**inherited(), **self.own}

    @property
    def archive(self) -> str:
        """Where Rayflight's archive lies unless the settings name another place."""
        return self.settings.rayflight.get("archive", (self.directory / "archive").as_uri())

    @property
    def processes(self) -> Path:
        """Standard output of each component."""
        return self.directory / "processes"

    def prepare(self) -> None:
        """Make the directory, the password file and the database."""
        self.processes.mkdir(parents=True, exist_ok=True)
        passwords = self.directory / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps(self.passwords))
        database = self.directory / "airflow.db"
        if not database.exists():
            _copy_database(migrated_template(), database)

    def _own(self) -> dict[str, str]:
        """What distinguishes the processes of this Airflow from all others of the machine."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        connections = {
            f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in self.settings.connections.items()
        }
        rayflight = {
            f"AIRFLOW__RAYFLIGHT__{key.upper()}": value
            for key, value in {"archive": self.archive, "instance": "dev", **self.settings.rayflight}.items()
        }
        return {"PATH": path, **self._airflow(), **connections, **rayflight, **self.settings.environment}

    def _fernet_key(self) -> str:
        """One for the life of the database: what was encrypted with another could not be read after a restart."""
        path = self.directory / "fernet.key"
        if not path.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
        return path.read_text()

    def _airflow(self) -> dict[str, str]:
        bundles = [
            {
                "name": folder.name if index == 0 else f"{folder.name}-{index}",
                "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                "kwargs": {"path": str(folder), "refresh_interval": 10},
            }
            for index, folder in enumerate(self.settings.dag_folders)
        ]
        return {
            "AIRFLOW_HOME": str(self.directory),
            # include/ becomes importable, and rayflight is this checkout's, whatever is installed.
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.settings.dag_folders[0]),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": str(self.settings.parallelism),
            "AIRFLOW__CORE__FERNET_KEY": self._fernet_key(),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{user}" for user in USERS),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.directory / "passwords.json"),
            # Its default points at port 8080, where another Airflow may listen.
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.directory / 'airflow.db'}",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(48),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            # On a busy machine a DAG is parsed late; after the default of 50 s Airflow would forget it.
            "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "3600",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "RAY_USAGE_STATS_ENABLED": "0",
        }


def inherited() -> dict[str, str]:
    """What every process may know of the environment that this one was started in."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AIRFLOW", "RAYFLIGHT_")) and key.lower() not in _PROXIES and key != "KUBECONFIG"
    }


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cache_directory() -> Path:
    """What is worth keeping between runs: in the project's own folder, and removed by `make clean`."""
    return Path(os.environ.get("RAYFLIGHT_DEV_CACHE") or ROOT / ".tools")


def migrated_template() -> Path:
    """An empty, migrated database for exactly the locked versions; made on first use."""
    lock_file = hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()[:16]
    template = cache_directory() / f"airflow-{lock_file}.db"
    template.parent.mkdir(parents=True, exist_ok=True)
    with (template.parent / "template.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not template.exists():
            _migrate_into(template)
    return template


def _migrate_into(template: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="rayflight-migrate-") as scratch:
        database = Path(scratch) / "airflow.db"
        subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env={
                **os.environ,
                "AIRFLOW_HOME": scratch,
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}",
            },
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=300,
        )
        temporary = template.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        _copy_database(database, temporary)
        temporary.rename(template)


def _copy_database(source: Path, target: Path) -> None:
    # SQLite's own copy: what still stands in the write-ahead log comes along.
    origin, copy = sqlite3.connect(source), sqlite3.connect(target)
    try:
        origin.backup(copy)
    finally:
        copy.close()
        origin.close()
