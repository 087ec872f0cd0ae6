"""The table of drills holds together: every word in it means something to the driver, the scripts, the catalogue."""

from __future__ import annotations

import ast

import pytest

from dev.airflow_home import ROOT
from dev.drills.proofs import PROOFS
from dev.drills.provoke import ACTIONS
from dev.drills.table import Drill, flights, read
from rayflight import errors
from rayflight.airflow.drills import by_themselves, spoilt, submissions
from rayflight.airflow.drills import read as read_plain
from rayflight.diagnosis.kinds import KINDS
from rayflight.errors import InvalidSpec, RayflightError
from rayflight.specs import ClusterSpec, JobSpec

FOLDER = ROOT / "include" / "drills"
DRILLS = read()
TABLE = read_plain(FOLDER)


@pytest.fixture(params=DRILLS, ids=lambda drill: drill.name)
def drill(request: pytest.FixtureRequest) -> Drill:
    found: Drill = request.param
    return found


def test_every_cause_is_one_that_the_product_can_name(drill: Drill):
    for cause in drill.cause:
        error = getattr(errors, cause, None)
        assert cause in KINDS or (isinstance(error, type) and issubclass(error, RayflightError)), cause


def test_every_decision_is_one_that_the_cause_may_have(drill: Drill):
    for kind in (KINDS[cause] for cause in drill.cause if cause in KINDS):
        assert drill.decision in kind.decisions or kind.id != drill.cause[0]


def test_every_action_and_proof_exists(drill: Drill):
    assert {action[0] for action in (*drill.before, *drill.provoke)} <= set(ACTIONS)
    assert drill.proof in ("", *PROOFS)


def test_a_drill_that_must_fail_says_how_it_shows_and_what_airflow_does(drill: Drill):
    assert bool(drill.cause) == bool(drill.sign) == bool(drill.decision)


def test_its_shape_is_valid_unless_the_drill_is_that_it_is_not(drill: Drill):
    shape = spoilt(TABLE, [drill.name], shape="testbed-2x1", image="ray:1")
    if drill.name == "bad-spec":
        with pytest.raises(InvalidSpec, match=drill.says):
            ClusterSpec.parse(shape, which="shape")
    else:
        assert ClusterSpec.parse(shape, which="shape").worker_pods >= 1


def test_its_job_is_valid_and_its_script_is_there(drill: Drill):
    job = JobSpec.parse(submissions(TABLE, [drill.name], FOLDER)[0], which="job")
    job.require_files()
    for word in job.entrypoint.split():
        assert not word.endswith(".py") or (FOLDER / word).exists()


def test_drills_that_share_a_cluster_change_nothing_of_it():
    for group in (group for group in flights(DRILLS) if len(group) > 1):
        assert not any(drill.shape or drill.before for drill in group)
        assert len({(drill.conn_id, drill.when, drill.alone) for drill in group}) == 1


def test_faults_made_on_a_shared_cluster_end_by_themselves_and_nothing_may_fail_of_them():
    for group in (group for group in flights(DRILLS) if len(group) > 1):
        for drill in group:
            assert not drill.provoke or not drill.cause
            assert all(action[-1].isdecimal() for action in drill.provoke)


def test_a_form_offers_only_drills_that_need_nobody_from_outside():
    offered = by_themselves(TABLE)
    assert "wrong-image" in offered
    assert not {"quota", "head-pod-lost"} & set(offered)


def test_an_unknown_field_is_refused():
    with pytest.raises(InvalidSpec, match="caus"):
        Drill.parse({"name": "x", "caus": ["crash-loop"]}, which="drill x")


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_a_script_is_python_of_the_image(script):
    ast.parse(script.read_text(), feature_version=(3, 11))
