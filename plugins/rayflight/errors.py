"""The one exception tree of Rayflight. Every message says what failed, on which object, why, and the next step.

RayflightError
├── InvalidSpec              input that is refused before anything is created
├── ApiError                 the Kubernetes API or the Ray dashboard did not do what was asked
│   ├── ApiUnreachable       no answer in time (may heal)
│   ├── TokenRefused         401: the credentials are not accepted
│   ├── PermissionMissing    403: verb and resource are named
│   ├── Conflict             409: exists already, or another UID than expected
│   └── RequestRejected      any other refusal, admission included
├── ForeignObject            the object exists and belongs to somebody else
├── ClusterGone              the cluster vanished or lost its head: whatever ran there is lost
├── NotVerified              a cluster that this attempt did not verify
├── ArchiveNotShared         this process cannot read the marker that ``plan`` left
├── TeardownIncomplete       something that the run owns is still there
└── Diagnosed                carries a Diagnosis
    ├── ClusterFailed        the cluster cannot become ready
    ├── VerificationFailed   also carries the checks that failed
    ├── JobFailed            the training ended without success
    └── WaitTimedOut         a deadline passed; says what was waited for
"""

from __future__ import annotations

from collections.abc import Sequence

from rayflight.findings import Check, Decision, Diagnosis


class RayflightError(Exception):
    """Base of all: ``what`` failed, on ``which`` object, ``why``, and the ``next_step`` for the reader."""

    def __init__(self, what: str, *, which: str = "", why: str = "", next_step: str = "") -> None:
        self.what, self.which, self.why, self.next_step = what, which, why, next_step
        super().__init__(what, which, why, next_step)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by fields: BaseException's own way would call the constructor with positional arguments only."""
        return _restore, (type(self), self.__dict__)

    def __str__(self) -> str:
        head = f"{self.what} {self.which}".strip().rstrip(":")
        sentence = f"{head}: {self.why}" if self.why else head
        sentence = sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
        return f"{sentence} Next: {self.next_step}" if self.next_step else sentence


def _restore(kind: type[RayflightError], fields: dict[str, object]) -> RayflightError:
    error = kind.__new__(kind)
    error.__dict__.update(fields)
    return error


class InvalidSpec(RayflightError, ValueError):
    """Input that is refused before anything is created."""


class ApiError(RayflightError):
    """A request to the Kubernetes API or to Ray that did not do what was asked. ``status``: HTTP status, if any."""

    status: int | None = None


class ApiUnreachable(ApiError):
    """No usable answer in time (refused, timed out, 429, 5xx): says nothing about the object itself.

    ``retry_after`` is in seconds, where the server asked for it.
    """

    retry_after: float | None = None


class TokenRefused(ApiError):
    """401, or Ray's own token refusal."""


class PermissionMissing(ApiError):
    """403: the message names verb, resource and namespace."""


class Conflict(ApiError):
    """409: the name exists, or a precondition (UID, resourceVersion) did not hold."""


class RequestRejected(ApiError):
    """Any other refusal: validation, admission webhooks, quota at admission."""


class ForeignObject(RayflightError):
    """An object of the wanted name exists and is not this run's."""


class ClusterGone(RayflightError):
    """The cluster vanished, or its head (and with it every submission) was lost."""


class NotVerified(RayflightError):
    """The cluster was not verified by this attempt."""


class ArchiveNotShared(RayflightError):
    """The marker that ``plan`` left in the archive cannot be read here."""


class TeardownIncomplete(RayflightError):
    """Something owned by the run is still there after the deadline."""


class Diagnosed(RayflightError):
    """Carries the diagnosis that a retry policy, an alert and the report read."""

    def __init__(self, what: str, *, diagnosis: Diagnosis, which: str = "", next_step: str = "") -> None:
        self.diagnosis = diagnosis
        super().__init__(what, which=which, why=diagnosis.sentence(), next_step=next_step)

    @property
    def decision(self) -> Decision:
        """What the diagnosis asks for; an unknown cause is retried as Airflow is told to."""
        return self.diagnosis.cause.decision if self.diagnosis.cause else Decision.RETRY_AFTER


class ClusterFailed(Diagnosed):
    """The cluster cannot become ready."""


class VerificationFailed(Diagnosed):
    """At least one row of the verification matrix failed."""

    def __init__(self, what: str, *, diagnosis: Diagnosis, checks: Sequence[Check], which: str = "") -> None:
        self.checks = tuple(checks)
        super().__init__(what, diagnosis=diagnosis, which=which)


class JobFailed(Diagnosed):
    """The training ended without success, or can never end."""


class WaitTimedOut(Diagnosed):
    """The deadline of a wait passed."""
