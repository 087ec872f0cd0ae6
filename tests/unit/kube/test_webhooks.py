"""A webhook that does not answer stands between us and an API server that is well: the next step is at its owner's."""

import json

import pytest

from rayflight.errors import ApiUnreachable
from rayflight.kube.refusals import Call, refusal

# As an API server said it while Kueue was stopped.
SAID = (
    'Internal error occurred: failed calling webhook "{0}": failed to call webhook: Post "https://hooks:9443/mutate": '
    "dial tcp 10.0.0.1:9443: connect: connection refused"
)
CALL = Call(verb="create", resource="rayclusters.ray.io", server="https://api", namespace="team-a", name="c")


def told(message: str) -> str:
    body = {"kind": "Status", "apiVersion": "v1", "message": message, "reason": "InternalError", "code": 500}
    error = refusal(500, json.dumps(body).encode(), CALL)
    assert isinstance(error, ApiUnreachable)  # it may heal
    return str(error)


@pytest.mark.parametrize(
    ("hook", "whose"), [("mraycluster.kb.io", "Kueue's"), ("policy.example.com", "whoever runs webhook policy.example")]
)
def test_the_webhook_is_named_and_the_api_server_is_not_blamed(hook: str, whose: str):
    said = told(SAID.format(hook))
    assert whose in said
    assert hook in said
    assert "check that the API server is up" not in said


def test_any_other_internal_error_is_the_api_servers():
    assert "check that the API server is up" in told("Internal error occurred: etcdserver: no leader")
