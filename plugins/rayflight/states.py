"""The states of Ray jobs, verdicts and teardown modes. Names and joins only: no I/O."""

from __future__ import annotations

from enum import StrEnum


class JobStatus(StrEnum):
    """Status of a submission as the Ray Jobs API says it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def ended(self) -> bool:
        """True when the submission can never run again."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class Verdict(StrEnum):
    """Verdict of one check. What has no meaning on a backend is NOT_APPLICABLE, never PASSED."""

    PASSED = "passed"
    FAILED = "failed"
    WARNED = "warned"  # observed, and worth a look; forbids nothing
    UNKNOWN = "unknown"  # could not be observed; the evidence says why
    NOT_APPLICABLE = "not applicable"


class Stage(StrEnum):
    """The stages of a run in the order in which they happen."""

    PLAN = "plan"
    PROVISION = "provision"
    WAIT_READY = "wait_ready"
    VERIFY = "verify"
    TRAIN = "train"
    COLLECT_LOGS = "collect_logs"
    TEAR_DOWN = "tear_down"
