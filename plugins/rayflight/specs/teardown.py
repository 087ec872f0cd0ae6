"""When a cluster is deleted. Data only: who deletes is the lifecycle's business."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

from pydantic import model_validator

from rayflight.specs.strict import Strict
from rayflight.specs.units import Duration

_LONGEST_KEEP = timedelta(days=7)  # idle GPUs cost as much as busy ones


class TeardownMode(StrEnum):
    """What happens to the cluster at the end of its run."""

    ALWAYS = "always"  # deleted after success and after failure
    ON_SUCCESS = "on_success"  # deleted after success; after a failure a person has a day to look and release it
    KEEP_ON_FAILURE = "keep_on_failure"  # deleted after success; after a failure it stays for a stated time


class TeardownPolicy(Strict):
    """``always`` (default), ``on_success``, or ``keep_on_failure`` with ``keep_for``; a bare word is a mode."""

    mode: TeardownMode = TeardownMode.ALWAYS
    keep_for: Duration | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_word(cls, data: Any) -> Any:
        return {"mode": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _time_fits_mode(self) -> Self:
        if self.mode is TeardownMode.KEEP_ON_FAILURE and self.keep_for is None:
            raise ValueError("keep_on_failure needs keep_for, for example keep_for: 2h")
        if self.mode is not TeardownMode.KEEP_ON_FAILURE and self.keep_for is not None:
            raise ValueError(f"keep_for has no meaning with {self.mode}; use mode: keep_on_failure")
        if self.keep_for is not None and self.keep_for > _LONGEST_KEEP:
            raise ValueError(
                f"keep_for {self.keep_for} is longer than {_LONGEST_KEEP.days} days; GPUs would stand idle"
            )
        return self

    def keeps(self, *, failed: bool) -> bool:
        """Whether the cluster outlives its run."""
        return failed and self.mode is not TeardownMode.ALWAYS
