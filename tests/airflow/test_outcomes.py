"""An error crosses from the triggerer to the task with everything it carried."""

import json
import pickle

import pytest

from rayflight import errors
from rayflight.airflow import outcomes
from rayflight.findings import Check, Decision, Diagnosis, Evidence, Finding, Layer

CAUSE = Finding(
    id="image-not-found",
    title="Image not found",
    layer=Layer.KUBERNETES,
    summary="pod x cannot pull image y.",
    next_step="correct the image.",
    decision=Decision.FAIL,
    evidence=(Evidence(object="pod x", text="manifest unknown", at="2026-12-01T10:00:00Z"),),
)
DIAGNOSIS = Diagnosis(verdict="cause", cause=CAUSE)
CHECK = Check(id="pods-ready", level=1, subject="pod x", expected="Ready", observed="Pending", verdict="failed")


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidSpec("Refused", which="shape a", why="no image", next_step="name one"),
        errors.ClusterFailed("The cluster cannot become ready", which="ns/a", diagnosis=DIAGNOSIS),
        errors.VerificationFailed("Verification failed", which="ns/a", diagnosis=DIAGNOSIS, checks=[CHECK]),
        errors.ArchiveNotShared("The archive is not shared"),
    ],
)
def test_the_task_raises_what_the_trigger_met(error: errors.RayflightError) -> None:
    event = json.loads(json.dumps(outcomes.failure(error)))
    with pytest.raises(type(error)) as raised:
        outcomes.result(event)
    assert str(raised.value) == str(error)
    assert getattr(raised.value, "diagnosis", None) == getattr(error, "diagnosis", None)
    assert getattr(raised.value, "checks", None) == getattr(error, "checks", None)


def test_a_result_passes_through() -> None:
    assert outcomes.result({"result": {"a": 1}}) == {"a": 1}


def test_an_error_survives_pickling() -> None:
    error = errors.ClusterFailed("The cluster cannot become ready", which="ns/a", diagnosis=DIAGNOSIS)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.diagnosis) == (str(error), DIAGNOSIS)
