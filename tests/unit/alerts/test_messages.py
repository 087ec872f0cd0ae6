"""One message says what, where, since when and what to do, in every form, and gives no secret away."""

from __future__ import annotations

import json

import pytest

from rayflight.alerts import Alert, Run, problem, render
from rayflight.errors import ClusterFailed, InvalidSpec
from rayflight.findings import Decision, Diagnosis, Evidence, Finding, Layer
from tests.unit.alerts.faults import NOW, PLACE, RUN, UUID, alert, check, failed

FORMS = {
    "text": render.text,
    "markdown": lambda it: render.markdown(it).replace("\\", ""),
    "mrkdwn": render.mrkdwn,
    "html": render.html,
    "json": lambda it: json.dumps(render.as_json(it)),
    "card": lambda it: json.dumps(render.as_card(it)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_everything_that_is_acted_upon(form: str) -> None:
    said = FORMS[form](alert())
    for fact in (
        "compute",
        "a product with right numbers on its GPU",
        "numbers WRONG by 0.7",
        "w-1",
        "gpu-1",
        UUID,
        "2026-12-01T10:00:00+00:00",
        "wrong numbers mean a bad device",
        "https://airflow.example/dags/train/runs/r1",
    ):
        assert fact in said, f"{form} does not say {fact}"


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"card"}))
def test_every_form_links_to_the_matrix(form: str) -> None:
    assert "s3://bucket/run/verification.json" in FORMS[form](alert())


@pytest.mark.parametrize("form", FORMS)
def test_no_form_gives_a_secret_away(form: str) -> None:
    leaky = alert(observed="login with password=hunter2secret and hf_abcdefghijklmnopqrstu failed")
    said = FORMS[form](leaky)
    assert "hunter2secret" not in said
    assert "hf_abcdef" not in said


def test_what_a_pod_printed_does_not_become_markup() -> None:
    evil = alert(observed="<img src=x onerror=alert(1)> *bold* [x](http://evil)")
    assert "<img" not in render.html(evil)
    assert "<img" not in render.mrkdwn(evil)
    assert "[x](http" not in render.markdown(evil)


def test_the_subject_is_one_line_that_names_the_node_and_how_often() -> None:
    assert render.subject(alert()) == "train: Verification level 4 failed: compute on node gpu-1"
    many = Alert.from_dict({**alert().to_dict(), "count": 7})
    assert render.subject(many).endswith("(7 times)")


def test_an_alert_survives_the_way_through_json() -> None:
    assert Alert.from_dict(json.loads(json.dumps(alert().to_dict()))) == alert()


def test_a_diagnosis_names_its_objects_and_when_it_began() -> None:
    cause = Finding(
        id="gpu-unhealthy",
        title="A GPU is unhealthy",
        layer=Layer.KUBERNETES,
        summary=f"Device {UUID} on node gpu-2 is Unhealthy.",
        next_step="drain node gpu-2",
        decision=Decision.RETRY_ELSEWHERE,
        objects=("node/gpu-2", "pod/w-2"),
        evidence=(Evidence(object="node/gpu-2", text="Xid 79"),),
        since="2026-12-01T09:58:00Z",
    )
    error = ClusterFailed("Failed", diagnosis=Diagnosis(verdict="cause", cause=cause))
    made = problem(error, run=RUN, at=NOW)
    assert (made.where.node, made.where.pod, made.where.gpus) == ("gpu-2", "w-2", (UUID,))
    assert (made.since, made.next_step) == ("2026-12-01T09:58:00Z", "drain node gpu-2")


def test_an_error_of_ours_keeps_its_next_step_and_one_of_others_gets_one() -> None:
    ours = problem(InvalidSpec("Refused", which="gpus", why="0 is too few", next_step="give 1"), run=RUN, at=NOW)
    assert (ours.cause, ours.what, ours.next_step) == ("invalid-spec", "Refused gpus: 0 is too few", "give 1")
    assert "log" in problem(ValueError("x"), run=RUN, at=NOW).next_step
    assert problem(None, run=RUN, at=NOW).what


def test_the_same_fault_on_another_node_or_of_another_cause_is_another_fault() -> None:
    elsewhere = alert(facts={"pod": "w-1", "node": "gpu-9"})
    same_by_another_dag = alert(run=Run(dag_id="other", run_id="r9", task_id="flight.verify"))
    assert len({alert().fingerprint, elsewhere.fingerprint, alert(id="storage-shared").fingerprint}) == 3
    assert same_by_another_dag.fingerprint == alert().fingerprint


def test_more_findings_than_fit_are_counted() -> None:
    rows = [PLACE, *(check(id=f"c{n}") for n in range(9))]
    assert problem(failed(*rows), run=RUN, at=NOW).also[-1] == "and 3 more"


def test_of_a_long_log_the_last_words_are_kept() -> None:
    made = problem(ValueError("first words " + "x" * 5000 + " last words"), run=RUN, at=NOW)
    assert made.what.startswith("first words")
    assert made.what.endswith("last words")
    assert len(made.what) < 1300
