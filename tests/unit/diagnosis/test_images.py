"""An image that cannot be pulled is named with the runtime's own words, and only hiccups are waited for."""

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from tests.made_up import event, head, snapshot, with_container, worker
from tests.moments import moment
from tests.unit.diagnosis.asking import found, ids

IMAGE = "registry.example/ray:2.60.0"


def pulling(message, reason="ErrImagePull", container="wait-gcs-ready", **changes):
    pod = worker(2, phase="Pending", conditions=())
    pod = with_container(pod, container, state="waiting", reason=reason, message=message, image=IMAGE)
    return snapshot(pods=(head(), worker(1), pod), **changes)


@pytest.mark.parametrize(
    ("message", "name", "decision"),
    [
        (f"failed to resolve reference {IMAGE}: {IMAGE}: not found", "image-not-found", Decision.FAIL),
        ("manifest unknown: manifest unknown", "image-not-found", Decision.FAIL),
        ("failed to authorize: 401 Unauthorized", "image-unauthorized", Decision.FAIL),
        ("pull access denied, repository does not exist or may require auth", "image-unauthorized", Decision.FAIL),
        ("toomanyrequests: You have reached your pull rate limit", "image-rate-limited", Decision.RETRY_AFTER),
        ("no match for platform in manifest: not found", "image-wrong-platform", Decision.FAIL),
        ("dial tcp: lookup registry.example: no such host", "image-registry-unknown", Decision.FAIL),
        ("tls: failed to verify certificate: x509: unknown authority", "image-registry-untrusted", Decision.FAIL),
        ("dial tcp 10.0.0.9:443: i/o timeout", "image-registry-unreachable", Decision.WAIT),
        ("something that nobody has seen yet", "image-pull-failing", Decision.WAIT),
    ],
)
def test_the_runtimes_words_tell_the_kind(message, name, decision):
    finding = found(pulling(message))[name]
    assert finding.decision is decision
    assert IMAGE in finding.summary
    assert "init container wait-gcs-ready" in finding.summary
    assert "pod flight-gpu-worker-2" in finding.summary


@pytest.mark.parametrize(
    ("reason", "name"), [("InvalidImageName", "image-name-invalid"), ("ErrImageNeverPull", "image-never-pulled")]
)
def test_reasons_of_their_own_need_no_words(reason, name):
    assert found(pulling("", reason))[name].decision is Decision.FAIL


def test_words_in_the_images_own_name_prove_nothing():
    pod = worker(2, phase="Pending", conditions=())
    image = "registry.example/not-found:403-x509"
    text = f'Back-off pulling image "{image}"'
    pod = with_container(pod, "ray-worker", state="waiting", reason="ImagePullBackOff", message=text, image=image)
    assert "image-pull-failing" in ids(snapshot(pods=(head(), worker(1), pod)))


def test_the_event_gives_the_words_that_a_back_off_hides():
    seen = pulling(f'Back-off pulling image "{IMAGE}"', "ImagePullBackOff")
    told = event("Failed", f'Failed to pull image "{IMAGE}": not found', about=seen.pods[2])
    finding = found(replace(seen, events=(told,)))["image-not-found"]
    assert "not found" in finding.summary
    assert finding.evidence[1].at == told.last_at


def test_an_unreachable_registry_is_given_up_after_three_failed_pulls():
    seen = pulling("dial tcp 10.0.0.9:443: i/o timeout")
    told = event("Failed", "Failed to pull image: i/o timeout", about=seen.pods[2], count=3)
    finding = found(replace(seen, events=(told,)))["image-registry-unreachable"]
    assert finding.decision is Decision.RETRY_AFTER
    assert finding.retry_after


def test_an_image_that_is_being_pulled_is_no_fault():
    assert ids(pulling("", "ContainerCreating")) == []


def test_a_deleted_pods_image_is_no_fault():
    seen = pulling("not found")
    leaving = replace(seen.pods[2], deleting_since="2026-12-01T10:00:40.000Z")
    assert "image-not-found" not in ids(replace(seen, pods=(*seen.pods[:2], leaving)))


@pytest.mark.parametrize("name", ["image-not-found-t010s", "image-not-found-t040s"])
def test_a_recorded_missing_image_is_found_once_for_both_pods(name):
    finding = found(moment(name))["image-registry-unknown"]
    assert "2 pods" in finding.summary
    assert len([item for item in finding.objects if item.startswith("pod/")]) == 2
