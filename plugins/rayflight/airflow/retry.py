"""Maps a diagnosis to Airflow's retry decisions (decision 3). Decides only by the exception it is given."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy

from rayflight import errors
from rayflight.findings import Decision

if TYPE_CHECKING:
    from airflow.sdk import Context

_NEVER = (
    errors.InvalidSpec,
    errors.PermissionMissing,
    errors.TokenRefused,
    errors.ForeignObject,
    errors.NotVerified,
    errors.ArchiveNotShared,
)


class DiagnosisRetryPolicy(RetryPolicy):
    """Fail at once what a retry cannot mend; retry capacity and outages after the delay that the diagnosis names."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Airflow's ``retries`` bounds what is said here."""
        if isinstance(exception, _NEVER):
            return RetryDecision.fail(f"{type(exception).__name__} is not mended by a retry")
        if not isinstance(exception, errors.Diagnosed) or exception.diagnosis.cause is None:
            return RetryDecision.default()
        cause = exception.diagnosis.cause
        if cause.decision is Decision.FAIL:
            return RetryDecision.fail(f"{cause.id}: a retry cannot mend it")
        delay = timedelta(seconds=cause.retry_after) if cause.retry_after is not None else None
        return RetryDecision.retry(delay, reason=f"{cause.id}: {cause.decision}")

    def serialize(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DiagnosisRetryPolicy:
        """The inverse of ``serialize``."""
        return cls()
