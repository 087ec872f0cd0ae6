"""How the probe is packed, started and read."""

from __future__ import annotations

import json
import shlex

import pytest

from rayflight.probe import main as probe_main
from rayflight.rayjobs.probe import MARK, NAME, probe_entrypoint, probe_package, probe_result


def test_the_package_runs_under_its_own_name() -> None:
    files = probe_package().files
    assert {f"{NAME}/__init__.py", f"{NAME}/main.py"} <= set(files)
    assert all(name.startswith(f"{NAME}/") and name.endswith(".py") for name in files)


def test_the_entrypoint_survives_the_shell() -> None:
    words = shlex.split(probe_entrypoint({"gpus": 2, "note": "it's"}))
    assert words[:4] == ["python3", "-m", f"{NAME}.main", "--expect"]
    assert json.loads(words[4]) == {"gpus": 2, "note": "it's"}


def test_both_sides_know_the_same_mark() -> None:
    assert probe_main.MARK + " " == MARK


def test_the_last_result_is_read_whatever_stands_before_it() -> None:
    log = f'warning {{}}\n(driver) {MARK}{{"world_size": 1}}\n{MARK}{{"world_size": 2}}\nbye\n'
    assert probe_result(log) == {"world_size": 2}


@pytest.mark.parametrize("log", ["", "no mark here", f'{MARK}{{"world_si', f"{MARK}[1]"])
def test_no_whole_result_is_none(log: str) -> None:
    assert probe_result(log) is None
