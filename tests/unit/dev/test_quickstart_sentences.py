"""What stands in the way of `make demo` is said in one clear sentence, before anything is half done."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from dev import quickstart
from dev.airflow_home import ROOT
from rayflight.backends.local import LocalBackend
from rayflight.backends.local_access import LocalAccess
from rayflight.specs import ClusterSpec
from tests.world import OWNER


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that has nothing but the script, and programs of our own before those of the system."""
    folder = tmp_path / "clone"
    (folder / "dev").mkdir(parents=True)
    (folder / "bin").mkdir()
    shutil.copy(ROOT / "dev" / "quickstart.sh", folder / "dev")
    program(folder, "python", f'exec {sys.executable} "$@"')
    return folder


def program(folder: Path, name: str, body: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def refusal(folder: Path, **environment: str) -> str:
    """The last line on standard error."""
    given = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "PYTHON": "python", "MAKE": "false", **environment}
    done = subprocess.run(
        ["sh", str(folder / "dev" / "quickstart.sh"), "demo"], env=given, capture_output=True, text=True
    )
    assert done.returncode == 1, done
    return done.stderr.strip().splitlines()[-1]


def test_an_old_python(clone):
    program(clone, "python", '[ "$1" = -V ] && echo "Python 3.9.2"; exit 1')
    assert refusal(clone) == (
        "Python 3.9.2 cannot run Airflow 3.3 with Ray. "
        "Next: name a Python 3.11, 3.12 or 3.13 with PYTHON=/path/to/python."
    )


def test_no_python(clone):
    assert "There is no nowhere-python on PATH. Next: install Python 3.11" in refusal(clone, PYTHON="nowhere-python")


def test_a_python_without_venv(clone):
    program(clone, "python", f'case "$*" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"')
    assert "cannot make virtual environments. Next: install python3-venv" in refusal(clone)


def test_a_full_disk(clone):
    program(clone, "df", "echo head; echo disk 9 9 1024000 9 /")
    assert "Only 1000 MiB are free on the disk of" in refusal(clone)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("error: dns error: failed to lookup address", "The packages cannot be downloaded. Next: see whether this"),
        ("ERROR: No matching distribution found for uv", "The packages cannot be downloaded."),
        ("No space left on device (os error 28)", "is full. Next: make room and start again."),
        ("something else", "The installation failed; all of it stands in"),
    ],
)
def test_an_installation_that_fails(clone, said, sentence):
    program(clone, "fails", f"echo '{said}'; exit 2")
    assert sentence in refusal(clone, MAKE="fails")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_clone_that_cannot_be_written(clone):
    clone.chmod(0o555)
    assert "Cannot write to" in refusal(clone)
    clone.chmod(0o755)


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert quickstart.main(["demo", "--folder", str(tmp_path / "file" / "demo")]) == 1
    assert "Cannot write to" in capsys.readouterr().err


def test_too_little_room_for_what_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Namespace(free=1024**3))
    assert quickstart.main(["demo", "--folder", str(tmp_path / "demo")]) == 1
    assert "Only 1.0 GiB are free" in capsys.readouterr().err


def test_a_port_that_is_taken(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert quickstart.main(["up", "--folder", str(tmp_path / "demo"), "--port", str(port)]) == 1
    assert f"Port {port} is taken by another program. Next: choose another with PORT=" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "up"])
def test_a_second_start_leaves_the_first_one_alone(tmp_path, capsys, monkeypatch, command):
    monkeypatch.setattr(quickstart, "clear", lambda folder: pytest.fail(f"{folder} was cleared"))
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert quickstart.main([command, "--folder", str(tmp_path)]) == 1
    assert "Another `make demo` or `make up` is at work in" in capsys.readouterr().err


def test_an_interrupted_demo_clears_away_its_cluster(tmp_path, capsys, monkeypatch):
    """Ctrl-C while Airflow runs: before (what an earlier start left) and after."""
    cleared: list[str] = []
    monkeypatch.setattr(quickstart, "clear", cleared.append)

    def interrupted(options, *, keep):
        assert not keep
        raise KeyboardInterrupt

    monkeypatch.setattr(quickstart, "_make", interrupted)
    assert quickstart.main(["demo", "--folder", str(tmp_path)]) == 1
    assert cleared == [tmp_path, tmp_path]
    assert "interrupted" in capsys.readouterr().err


def test_down_with_nothing_up_is_no_fault(tmp_path, capsys):
    assert quickstart.main(["down", "--folder", str(tmp_path / "demo")]) == 0
    assert "Airflow was not running; no cluster is left" in capsys.readouterr().out


def test_what_is_left_is_counted(tmp_path):
    record = tmp_path / "clusters" / "default" / "rf-x-a1"
    record.mkdir(parents=True)
    process = subprocess.Popen(["sleep", "60"], env={"RAYFLIGHT_LOCAL_POD": "rf-x-a1-head"})
    try:
        left = quickstart.left_behind(tmp_path, "rf-x-a1")
        assert left == [f"process {process.pid} of the cluster still runs", f"{record} is still there"]
        assert quickstart.left_behind(tmp_path, "rf-y-a1") == []
    finally:
        process.kill()
        process.wait()


def test_clusters_of_every_namespace_are_ended(tmp_path, capsys):
    """Whatever namespace a form named: the record goes, and with it all that carries the cluster's mark."""
    clusters = tmp_path / "clusters"
    backend = LocalBackend(LocalAccess.from_extras({"folder": str(clusters)}, home=tmp_path))
    spec = ClusterSpec.parse({"image": "none", "groups": [{"name": "w"}], "extra": {"suspend": True}}, which="shape")
    for namespace in ("default", "other"):
        asyncio.run(backend.create(spec, OWNER, namespace))
    assert len(list(clusters.glob("*/rf-*/cluster.json"))) == 2
    assert quickstart.main(["down", "--folder", str(tmp_path)]) == 0
    assert list(clusters.glob("*/rf-*")) == []
