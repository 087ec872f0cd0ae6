"""What is to be run on a cluster, and what every script may count on in its environment.

Looks at the disk only in ``require_files``.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from rayflight.errors import InvalidSpec
from rayflight.specs.pods import Text
from rayflight.specs.storage import Storage
from rayflight.specs.strict import Strict
from rayflight.specs.units import Duration, Memory, in_bytes

RESERVED_ENV = "RAYFLIGHT_"
RESERVED_METADATA = "rayflight"


class ScriptVariable(StrEnum):
    """Environment variables that every script gets, so that a backfill trains each interval's own data."""

    RUN_ID = "RAYFLIGHT_RUN_ID"
    DAG_ID = "RAYFLIGHT_DAG_ID"
    LOGICAL_DATE = "RAYFLIGHT_LOGICAL_DATE"
    DATA_INTERVAL_START = "RAYFLIGHT_DATA_INTERVAL_START"
    DATA_INTERVAL_END = "RAYFLIGHT_DATA_INTERVAL_END"
    ATTEMPT = "RAYFLIGHT_ATTEMPT"
    SUBMISSION = "RAYFLIGHT_SUBMISSION"
    STORAGE_PATH = "RAYFLIGHT_STORAGE_PATH"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _MEANING[self]


_MEANING = {
    ScriptVariable.RUN_ID: "run id of the Airflow dag run",
    ScriptVariable.DAG_ID: "id of the DAG",
    ScriptVariable.LOGICAL_DATE: "logical date, RFC 3339; empty for a run without one",
    ScriptVariable.DATA_INTERVAL_START: "start of the data interval, RFC 3339; empty for a run without one",
    ScriptVariable.DATA_INTERVAL_END: "end of the data interval, RFC 3339; empty for a run without one",
    ScriptVariable.ATTEMPT: "number of the attempt, from 1; a new attempt trains on a new cluster",
    ScriptVariable.SUBMISSION: "number of the submission on this cluster, from 1",
    ScriptVariable.STORAGE_PATH: "folder or URL for checkpoints, the same for all attempts; absent without storage",
}


class OnHang(StrEnum):
    """What becomes of a training in which nothing moves any more, once two samples of its stacks show it."""

    REPORT = "report"  # said in the task's log and kept in the archive; the training is left alone
    FAIL = "fail"  # stopped; a retry would not mend it
    RETRY = "retry"  # stopped; tried again from its last checkpoint as often as ``retries`` allows


class JobSpec(Strict):
    """One submission: an entrypoint, what it needs, and how long it may take (or say nothing: ``hang_after``)."""

    entrypoint: Annotated[str, Field(min_length=1)]
    working_dir: Path | None = None
    runtime_env: dict[str, Any] = {}
    entrypoint_num_cpus: Annotated[float, Field(ge=0)] | None = None
    entrypoint_num_gpus: Annotated[float, Field(ge=0)] | None = None
    entrypoint_memory: Memory | None = None
    entrypoint_resources: dict[str, Annotated[float, Field(ge=0)]] = {}
    env: dict[str, Text] = {}
    metadata: dict[str, str] = {}
    storage: Storage | None = None
    timeout: Duration | None = None
    on_hang: OnHang = OnHang.REPORT
    hang_after: Duration | None = None
    stack_signal: bool = False

    @field_validator("entrypoint")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must be a command, for example `python train.py`")
        return value

    @field_validator("env")
    @classmethod
    def _own_names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is no name for an environment variable")
            if name.startswith(RESERVED_ENV):
                raise ValueError(f"{name!r}: names that start with {RESERVED_ENV} are set by Rayflight, use another")
        return env

    @field_validator("metadata")
    @classmethod
    def _own_metadata(cls, metadata: dict[str, str]) -> dict[str, str]:
        for name in metadata:
            if name.startswith(RESERVED_METADATA):
                raise ValueError(
                    f"{name!r}: metadata that starts with {RESERVED_METADATA!r} says whose a job is, use another"
                )
        return metadata

    @model_validator(mode="after")
    def _one_working_dir(self) -> Self:
        inside = self.runtime_env.get("working_dir")
        if inside is not None and self.working_dir is not None:
            raise ValueError("working_dir stands in the job and in runtime_env; keep one")
        if inside is not None and "://" not in str(inside):
            raise ValueError(
                f"runtime_env.working_dir {inside!r} is a local folder; give it as working_dir, it is uploaded"
            )
        taken = sorted({"py_modules", "worker_process_setup_hook"} & set(self.runtime_env)) if self.stack_signal else []
        if taken:
            raise ValueError(f"stack_signal sets runtime_env.{taken[0]} itself; leave one of the two out")
        clash = sorted(set(self.env) & set(self.runtime_env.get("env_vars") or {}))
        if clash:
            raise ValueError(f"{', '.join(clash)} stands in env and in runtime_env.env_vars; keep one")
        return self

    @property
    def entrypoint_memory_bytes(self) -> int | None:
        """Memory as Ray's Job API takes it."""
        return None if self.entrypoint_memory is None else in_bytes(self.entrypoint_memory)

    def require_files(self) -> None:
        """Refuse a working_dir that is not there, before anything is created. The one place that looks at the disk."""
        if self.working_dir is None:
            return
        if not self.working_dir.is_dir():
            why = (
                "it is a file, not a folder" if self.working_dir.exists() else "there is no such folder on this machine"
            )
            raise InvalidSpec(
                "Refused working_dir",
                which=str(self.working_dir),
                why=why,
                next_step="name the folder that holds the script by its absolute path, as of Path(__file__).parent",
            )
        if next(self.working_dir.iterdir(), None) is None:
            raise InvalidSpec(
                "Refused working_dir",
                which=str(self.working_dir),
                why="it is empty",
                next_step="put the script into it",
            )
