"""Rayflight arrives as a plain plugins folder or as a distribution; Airflow's own loaders are asked what they see."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REPORT = textwrap.dedent("""
    import json, sys
    import airflow
    before = dict(sys.modules)
    from airflow import plugins_manager as manager
    plugins, errors = manager._get_plugins()
    from airflow.providers_manager import ProvidersManager
    folder = sys.argv[1]
    print(json.dumps({
        "plugins": [p.name for p in plugins],
        "errors": errors,
        "from_folder": sorted(n for n, m in sys.modules.items() if str(getattr(m, "__file__", "")).startswith(folder)),
        "replaced": sorted(n for n, m in before.items() if sys.modules.get(n) is not m),
        "provider": "rayflight" in ProvidersManager().providers,
    }))
""")


def ask_airflow(plugins_folder: Path, site: Path, home: Path) -> dict[str, object]:
    """Load plugins and providers in a fresh interpreter that sees only `site` as site-packages."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins_folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": str(site),
    }
    asked = subprocess.run(
        [sys.executable, "-S", "-c", REPORT, str(plugins_folder)],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr[-2000:]
    answer: dict[str, object] = json.loads(asked.stdout.strip().splitlines()[-1])
    return answer


def site_without_rayflight(folder: Path) -> Path:
    """Link everything that is installed here, except this project's own (editable) install."""
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "rayflight" not in entry.name:
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the source, as `pip install` does."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "plugins", source / "plugins", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", build, str(target)], cwd=source, check=True, capture_output=True)
    return next(target.glob("rayflight-*.whl"))


def test_plain_project_folder_registers_the_plugin_and_leaks_no_module(tmp_path):
    plugins = tmp_path / "project" / "plugins"
    shutil.copytree(ROOT / "plugins", plugins, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))

    seen = ask_airflow(plugins, site_without_rayflight(tmp_path / "site"), tmp_path)

    assert seen["plugins"] == ["rayflight"]
    assert seen["errors"] == {}
    assert seen["replaced"] == []
    foreign = [n for n in seen["from_folder"] if n != "rayflight_plugin" and n.split(".")[0] != "rayflight"]  # type: ignore[attr-defined]
    assert foreign == []


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"rayflight"}


def test_installed_wheel_registers_provider_and_plugin_by_entry_point(wheel, tmp_path):
    site = site_without_rayflight(tmp_path / "site")
    zipfile.ZipFile(wheel).extractall(site)
    empty = tmp_path / "plugins"
    empty.mkdir()

    seen = ask_airflow(empty, site, tmp_path)

    assert (seen["plugins"], seen["errors"], seen["provider"]) == (["rayflight"], {}, True)


def test_distribution_beside_the_plugins_folder_registers_once(wheel, tmp_path):
    site = site_without_rayflight(tmp_path / "site")
    zipfile.ZipFile(wheel).extractall(site)

    seen = ask_airflow(ROOT / "plugins", site, tmp_path)

    assert (seen["plugins"], seen["errors"]) == (["rayflight"], {})
