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
    return str(configured) or f"file://{conf.get('core', 'airflow_home', fallback='') or _home()}/rayflight-archive"


def _home() -> str:
    return os.environ.get("AIRFLOW_HOME") or str(Path("~/airflow").expanduser())
