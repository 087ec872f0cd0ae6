"""What Airflow's configuration says about Rayflight: section ``[rayflight]``, documented in get_provider_info."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

from airflow.sdk.configuration import conf

from rayflight.labels import Owner

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


def base_url() -> str:
    """Where people open this Airflow."""
    return str(conf.get("api", "base_url", fallback="") or "http://localhost:8080").rstrip("/")


def grafana_url(dag_id: str, run_id: str, *, start: datetime, end: datetime) -> str:
    """The dashboard of deploy/monitoring for one run and its time; empty where none is configured."""
    base = str(conf.get(SECTION, "grafana_url", fallback="")).rstrip("/")
    if not base:
        return ""
    window = {"from": int(start.timestamp() * 1000), "to": int(end.timestamp() * 1000)}
    owner = Owner(airflow=instance() or "unnamed", dag_id=dag_id, run_id=run_id, group="")
    return f"{base}?{urlencode({**window, 'var-run': owner.run_digest})}"
