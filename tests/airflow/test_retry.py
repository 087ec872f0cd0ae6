"""The retry policy does what the diagnosis says, within Airflow's own bounds."""

from datetime import timedelta

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction

from rayflight import errors
from rayflight.airflow.retry import DiagnosisRetryPolicy
from rayflight.findings import Decision, Diagnosis, Finding, Layer


def failed(decision: Decision, retry_after: float | None = None) -> errors.ClusterFailed:
    cause = Finding(
        id="x",
        title="x",
        layer=Layer.KUBERNETES,
        summary="s",
        next_step="n",
        decision=decision,
        retry_after=retry_after,
    )
    return errors.ClusterFailed("Failed", diagnosis=Diagnosis(verdict="cause", cause=cause))


@pytest.mark.parametrize(
    ("exception", "action", "delay"),
    [
        (failed(Decision.FAIL), RetryAction.FAIL, None),
        (failed(Decision.RETRY_AFTER, 120.0), RetryAction.RETRY, timedelta(seconds=120)),
        (failed(Decision.RETRY_ELSEWHERE), RetryAction.RETRY, None),
        (errors.ClusterFailed("?", diagnosis=Diagnosis(verdict="unknown")), RetryAction.DEFAULT, None),
        (errors.InvalidSpec("Refused"), RetryAction.FAIL, None),
        (errors.PermissionMissing("Refused"), RetryAction.FAIL, None),
        (errors.ApiUnreachable("No answer"), RetryAction.DEFAULT, None),
        (RuntimeError("a bug"), RetryAction.DEFAULT, None),
    ],
)
def test_each_failure_is_retried_as_its_cause_asks(
    exception: Exception, action: RetryAction, delay: timedelta | None
) -> None:
    decision = DiagnosisRetryPolicy().evaluate(exception, try_number=1, max_tries=3)
    assert (decision.action, decision.retry_delay) == (action, delay)
