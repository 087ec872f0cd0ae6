"""The demo flies with exactly the rights of deploy/kubernetes; without some it says what is lost, or does not start.

Every single right is taken away on the API server alone (tests/api/backend/test_each_right.py); here it is flown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.airflow_instance import Airflow
from dev.cluster import Cluster
from dev.place import Place
from testbed import build
from testbed.paths import Layout
from tests.kube.conftest import INSTANCE
from tests.kube.flights import Flights
from tests.kube.team import NAMESPACE, Team
from tests.rights import Right, rights

NEEDED = [right for right in rights() if right.group == "ray.io" or right.resource == "services/proxy"]
NEEDED.append(Right("watch", "pods"))
QUICK = [Right("create", "rayclusters", "ray.io"), Right("get", "services/proxy")]
# Used by clusters with a token alone; and the Role's list of pods is in the ClusterRole, too.
NOT_FOR_THIS_FLIGHT = [Right("get", "secrets"), Right("create", "secrets"), Right("list", "pods")]
WANTED = [right for right in rights() if right not in (*NEEDED, *NOT_FOR_THIS_FLIGHT)]
# In the log of provision; the API server's own test knows all of them.
SAID = [
    "no permission to list, watch events: a cluster that cannot start is not explained",
    "no permission to list, watch nodes: what can never fit is not told from what must wait",
    "no permission to get pods/log: pod logs are not collected",
    "no permission to get pods/proxy: Ray's log files are read whole from the head",
    "no permission to list services: the head service is not verified",
]


@pytest.fixture(scope="module")
def team(cluster: Cluster, team_kubeconfig: Path) -> Iterator[Team]:
    kubectl = build.ensure_kubernetes(Layout.full().cache, print) / "kubectl"
    made = Team(cluster, kubectl, team_kubeconfig)
    try:
        made.set_up()
        yield made
    finally:
        made.clear()


@pytest.fixture(scope="module")
def flights(airflow: Airflow, cluster: Cluster, place: Place, team: Team) -> Iterator[Flights]:
    airflow.client.wait_for_dag("train_as_team")
    flown = Flights(airflow=airflow, cluster=cluster, place=place, namespace=NAMESPACE, instance=INSTANCE)
    yield flown
    flown.end_all()


def test_the_demo_flies_with_exactly_these_rights(flights: Flights):
    run = flights.take_off("train_as_team", workers=2, verify=True, script_args="--epochs 5")
    assert flights.land(run) == "success"
    assert "Warning: " not in flights.log(run, "provision")
    assert flights.xcom(run, "verify")["verdict"] == "passed"
    assert flights.xcom(run, "train")["metrics"]["accuracy"] >= 0.9
    assert flights.xcom(run, "collect_logs")["missing"] == []
    assert flights.xcom(run, "tear_down")["kept"] == []
    flights.assert_nothing_left(run)


@pytest.mark.full
def test_without_everything_that_is_only_wanted_it_still_flies_and_names_what_it_could_not_see(
    flights: Flights, team: Team
):
    with team.without(*WANTED):
        run = flights.take_off("train_as_team", verify=True)
        assert flights.land(run) == "success"
        said = flights.log(run, "provision")
        assert [words for words in SAID if words not in said] == []
        unseen = {row["id"] for row in flights.xcom(run, "verify")["checks"] if row["verdict"] == "unknown"}
        missing = flights.xcom(run, "collect_logs")["missing"]
        print(unseen, missing, flights.xcom(run, "verify")["verdict"])
        assert {"head-service-ports", "nodes-match"} <= unseen
        assert any("log" in gap for gap in missing)
    flights.assert_nothing_left(run)


@pytest.mark.parametrize(
    "right", [pytest.param(it, id=str(it), marks=[] if it in QUICK else [pytest.mark.full]) for it in NEEDED]
)
def test_without_a_right_that_is_needed_one_sentence_says_so_before_anything_is_created(
    flights: Flights, team: Team, right: Right
):
    with team.without(right):
        run = flights.take_off("train_as_team")
        assert flights.land(run) == "failed"
        said = flights.failure(run, "provision")
    group = f".{right.group}" if right.group else ""
    assert f"it may not {right.verb} {right.resource}{group}" in said
    assert "grant them with a Role and a RoleBinding (docs/permissions.md)" in said
    assert flights.task(run, "provision").try_number == 1
    flights.assert_nothing_left(run)


@pytest.mark.full
@pytest.mark.parametrize("right", [pytest.param(it, id=str(it)) for it in WANTED])
def test_without_one_right_that_is_wanted_it_flies(flights: Flights, team: Team, right: Right):
    with team.without(right):
        run = flights.take_off("train_as_team", verify=True)
        assert flights.land(run) == "success"
        lines = [line for line in flights.log(run, "provision").splitlines() if "Warning: " in line]
        assert [line for line in lines if f"no permission to {right.verb}" not in line] == []
    flights.assert_nothing_left(run)
