"""What Airflow's configuration says about Rayflight: section ``[rayflight]``, documented in get_provider_info."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk.configuration import conf

SECTION = "rayflight"


def instance() -> str | None:
    """The name of this Airflow installation, or None when nobody gave it one. Labels carry its digest."""
    return conf.get(SECTION, "instance", fallback="") or None


def archive_base() -> str:
    """URL below which every flight has its folder; any ObjectStoragePath URL."""
    configured = conf.get(SECTION, "archive", fallback="")
    return str(configured) or f"file://{home()}/rayflight-archive"


def home() -> Path:
    """Airflow's own folder on this machine."""
    configured = conf.get("core", "airflow_home", fallback="") or os.environ.get("AIRFLOW_HOME")
    return Path(configured or "~/airflow").expanduser()
