"""The wheel, installed by pip into an environment that has Airflow: type, operators, plugin; nothing warns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

import rayflight.airflow as product
from tests.airflow.test_both_installs import site_without_rayflight, wheel

__all__ = ["wheel"]  # the fixture
REPORT = textwrap.dedent("""
    import json, sys, warnings
    warnings.simplefilter("always")
    with warnings.catch_warnings(record=True) as caught:
        import rayflight.airflow as product
        from airflow.sdk import task
        from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
        operators = [name for name in product.__all__ if getattr(product, name)]
        hook = ProvidersManagerTaskRuntime().hooks["rayflight"]
        decorator = task.ray
    ours = [str(item.message) for item in caught if "rayflight" in item.filename or "rayflight" in str(item.message)]
    print(json.dumps({
        "where": product.__file__, "operators": operators, "hook": hook.hook_class_name, "warnings": ours,
        "decorator": decorator.__module__,
    }))
""")


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel in it, and what Airflow's start in it said."""

    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        names = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }  # fmt: skip
        return subprocess.run(
            [str(self.folder / "bin" / words[0]), *words[1:]],
            env=names, cwd=self.folder, capture_output=True, text=True,
        )  # fmt: skip

    def airflow(self, *words: str) -> str:
        ran = self.run("python", "-W", "always", "-m", "airflow", *words)
        assert ran.returncode == 0, ran.stderr[-2000:]
        assert "rayflight" not in ran.stderr.lower(), ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    made = Environment(folder)
    installed = made.run("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    assert installed.returncode == 0, installed.stderr
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "airflow_of_the_lock.pth").write_text(str(site_without_rayflight(folder / "linked")))
    return made


def test_everything_a_dag_uses_is_there_and_nothing_warns(environment: Environment):
    ran = environment.run("python", "-c", REPORT)
    assert ran.returncode == 0, ran.stderr[-2000:]
    seen = json.loads(ran.stdout.strip().splitlines()[-1])
    assert seen["where"].startswith(str(environment.folder))
    assert seen["operators"] == product.__all__
    assert seen["hook"] == "rayflight.airflow.hook.RayflightHook"
    assert seen["decorator"] == "rayflight.airflow.decorator"
    assert seen["warnings"] == []


def test_airflow_lists_provider_and_plugin(environment: Environment):
    providers = json.loads(environment.airflow("providers", "list", "--output", "json"))
    assert [item["package_name"] for item in providers if "rayflight" in item["package_name"]] == ["rayflight"]
    plugins = json.loads(environment.airflow("plugins", "--output", "json"))
    assert [item["name"] for item in plugins] == ["rayflight"]


def test_airflow_lists_the_connection_type(environment: Environment):
    hooks = json.loads(environment.airflow("providers", "hooks", "--output", "json"))
    assert [item["package_name"] for item in hooks if item["connection_type"] == "rayflight"] == ["rayflight"]


def test_the_command_is_on_the_path(environment: Environment):
    ran = environment.run("rayflight", "--help")
    assert (ran.returncode, "diagnose" in ran.stdout) == (0, True), ran.stderr
