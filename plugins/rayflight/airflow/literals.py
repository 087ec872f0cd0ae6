"""What stands in a DAG file as it will be used (no template, no XCom) is refused when the file is read. Reads no file.

Only what can be told without rendering: a typo in a dict of a job, a shape or a teardown becomes Airflow's import
error instead of a failed run at night. ``plan`` checks everything again, with what templates and forms gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from rayflight.airflow import forms

_UNKNOWN = "{{ known when the task runs }}"


def check(task_id: str, *, cluster: Any = None, job: Any = None, teardown: Any = None, resize: Any = None) -> None:
    """Raises InvalidSpec for what is wrong whatever the templates give."""
    from rayflight.specs import ClusterSpec, JobSpec, TeardownPolicy

    if isinstance(cluster, Mapping):
        named = cluster.get("name")
        which = named if isinstance(named, str) else "cluster shape"
        _parse(ClusterSpec, dict(cluster), which=which)
    if isinstance(job, Mapping) and job:
        _parse(JobSpec, forms.job(job), which=f"job of task {task_id}")
    if isinstance(teardown, Mapping | str):
        _parse(TeardownPolicy, teardown, which=f"teardown of task {task_id}")
    if isinstance(resize, Mapping):
        forms.changes(dict.fromkeys(resize))  # the names: values are numbers only when they are rendered


def _parse(model: Any, data: Any, *, which: str) -> None:
    plain = _plain(data)
    model.check_names(plain, which=which) if _templated(plain) else model.parse(plain, which=which)


def _plain(value: Any) -> Any:
    """Plain data; whatever Airflow resolves later stands in it as a template does."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    return value if value is None or isinstance(value, str | int | float | Path | timedelta) else _UNKNOWN


def _templated(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_templated, value.values()))
    if isinstance(value, list):
        return any(map(_templated, value))
    return isinstance(value, str) and ("{{" in value or "{%" in value)
