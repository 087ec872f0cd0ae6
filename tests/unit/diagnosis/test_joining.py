"""Workers that run, but cannot join the head."""

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from rayflight.snapshot.model import Condition, Termination
from tests.made_up import SESSION, at, container, head, ray, snapshot, with_container, worker
from tests.unit.diagnosis.asking import found, ids

SAID = (
    "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.11.2\n"
    "This process on node 10.0.1.2 was started with:\n    Ray: 2.52.0\n    Python: 3.11.2\n"
)
BEGAN = at(2)
SERVES = Condition(type="Ready", status="True", since=at(10))


def waiting(image="registry.example/ray:2.60.0", started=BEGAN):
    pod = worker(2, phase="Pending", conditions=())
    init = container("wait-gcs-ready", init=True, state="running", image=image, started_at=started)
    main = container("ray-worker", gpus=1, image=image, state="waiting", reason="PodInitializing", ready=False)
    pod = replace(pod, containers=(init, main))
    pods = (head(conditions=(SERVES,)), worker(1), pod)
    return snapshot(pods=pods, ray=ray(head(), worker(1)))


def test_rays_own_words_of_another_version_are_quoted_from_the_log():
    seen = replace(snapshot(), logs={"flight-gpu-worker-2/ray-worker/previous": SAID})
    finding = found(seen)["ray-version-mismatch"]
    assert finding.decision is Decision.FAIL
    assert "Ray: 2.52.0" in finding.summary
    assert "ray-version-mismatch" not in ids(replace(seen, logs={"flight-gpu-worker-2/ray-worker": "fine"}))


def test_rays_own_words_are_read_from_a_containers_last_message_too():
    last = Termination(reason="Error", exit_code=1, message=SAID)
    pod = with_container(worker(2), "ray-worker", ready=False, restarts=2, last=last, state="running")
    result = found(snapshot(pods=(head(), worker(1), pod)))
    assert result["crash-loop"].consequence_of == ("ray-version-mismatch",)


def test_another_version_in_the_images_tag_is_named_when_the_worker_waits_on():
    seen = waiting("registry.example/ray:2.52.0-gpu")
    finding = found(seen)["ray-version-mismatch"]
    assert "ray:2.52.0-gpu" in finding.summary
    assert "ray:2.60.0" in finding.summary
    assert "ray-version-mismatch" in ids(replace(seen, taken_at=at(22)))
    assert "ray-version-mismatch" not in ids(replace(seen, taken_at=at(21)))


def test_tags_of_two_repositories_may_count_something_else_so_the_wait_is_longer():
    seen = waiting("registry.example/team:1.4.0")
    assert "ray-version-mismatch" in ids(replace(seen, taken_at=at(40)))
    assert "ray-version-mismatch" not in ids(replace(seen, taken_at=at(39)))


def test_a_tag_that_says_nothing_proves_nothing():
    assert "ray-version-mismatch" not in ids(waiting("registry.example/ray:latest"))


def test_a_worker_that_never_reaches_a_serving_head_has_no_way_to_it():
    seen = waiting()
    assert "head-not-reachable" not in ids(seen)
    finding = found(replace(seen, taken_at=at(140)))["head-not-reachable"]
    assert "NetworkPolicy" in finding.summary


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        ([4, 14, 23, 32], "two checks began after the head served and failed"),
        ([22, 40, 58], "a slow node: each check lasts a while, and two began late enough"),
        ([43, 91], "a silent name server: one check that began late enough sought the head for 43 s"),
    ],
)
def test_two_checks_that_failed_after_the_head_served_prove_that_there_is_no_way(seconds, why):
    finding = found(said(seconds, started=at(2)))["head-not-reachable"]
    assert any(f"{seconds[-1]} seconds elapsed" in item.text for item in finding.evidence), why


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        ([], "nothing failed yet"),
        ([4, 14, 23], "only the last one began when the head served"),
        ([4, 22], "the second began just as the head got Ready: its Service may not have followed"),
    ],
)
def test_checks_that_failed_before_the_head_served_prove_nothing(seconds, why):
    assert "head-not-reachable" not in ids(said(seconds, started=at(2))), why


def said(seconds, started):
    """A snapshot in which the init container has failed to find the head after so many seconds of its life."""
    seen = waiting(started=started)
    lines = "".join(f"{item} seconds elapsed: Waiting for GCS to be ready.\n" for item in seconds)
    return replace(seen, logs={f"{seen.pods[-1].name}/wait-gcs-ready": lines}, taken_at=at(100))


def test_a_worker_that_waits_for_a_head_that_does_not_serve_yet_is_no_fault():
    seen = replace(waiting("registry.example/ray:2.52.0"), taken_at=at(200))
    starting = (head(conditions=()), *seen.pods[1:])
    assert not {"ray-version-mismatch", "head-not-reachable"} & set(ids(replace(seen, pods=starting)))
    assert not {"ray-version-mismatch", "head-not-reachable"} & set(ids(replace(seen, ray=None)))


def test_a_worker_that_has_just_begun_to_wait_is_no_fault():
    seen = replace(waiting("registry.example/ray:2.52.0", started=at(190)), taken_at=at(200))
    assert ids(seen, session=SESSION) == []
