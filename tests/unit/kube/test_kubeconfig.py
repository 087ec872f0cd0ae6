"""From a kubeconfig to an endpoint: every kind of user, and one clear sentence for what is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rayflight.errors import InvalidSpec, TokenRefused
from rayflight.kube.access import KubeAccess
from rayflight.kube.endpoint import Endpoint, resolve


def config(user: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


async def endpoint(user: dict[str, Any], **cluster: Any) -> Endpoint:
    return await resolve(KubeAccess(inline=config(user, **cluster)))


async def test_a_token_becomes_a_bearer_header():
    found = await endpoint({"token": "t"})
    assert (found.server, await found.credentials.headers()) == ("http://127.0.0.1:9", {"Authorization": "Bearer t"})


async def test_a_password_becomes_a_basic_header():
    found = await endpoint({"username": "a", "password": "b"})
    assert await found.credentials.headers() == {"Authorization": "Basic YTpi"}


async def test_a_token_file_is_read_again_when_the_server_refused_it(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("one\n")
    found = await endpoint({"tokenFile": str(file)})
    assert await found.credentials.headers() == {"Authorization": "Bearer one"}
    file.write_text("two")
    assert await found.credentials.headers() == {"Authorization": "Bearer one"}
    found.credentials.forget()
    assert await found.credentials.headers() == {"Authorization": "Bearer two"}


def plugin(tmp_path: Path, status: dict[str, Any], code: int = 0) -> dict[str, Any]:
    script = tmp_path / "plugin.py"
    runs = tmp_path / "runs"
    script.write_text(
        f"import json, os, sys\nopen({str(runs)!r}, 'a').write('x')\n"
        f"assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        f"sys.stderr.write('please log in') if {code} else print({json.dumps(json.dumps({'status': status}))})\n"
        f"sys.exit({code})\n"
    )
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}}


async def test_a_plugin_runs_once_until_its_token_expires(tmp_path: Path):
    lasting = await endpoint(plugin(tmp_path, {"token": "p", "expirationTimestamp": "2999-01-01T00:00:00Z"}))
    for _ in range(3):
        assert await lasting.credentials.headers() == {"Authorization": "Bearer p"}
    assert (tmp_path / "runs").read_text() == "x"
    lasting.credentials.forget()
    await lasting.credentials.headers()
    assert (tmp_path / "runs").read_text() == "xx"


async def test_an_expired_token_is_asked_for_again(tmp_path: Path):
    brief = await endpoint(plugin(tmp_path, {"token": "p", "expirationTimestamp": "2000-01-01T00:00:00Z"}))
    await brief.credentials.headers()
    await brief.credentials.headers()
    assert (tmp_path / "runs").read_text() == "xxx"


async def test_a_plugin_that_fails_is_quoted(tmp_path: Path):
    with pytest.raises(TokenRefused, match="exit code 3: please log in"):
        await endpoint(plugin(tmp_path, {}, code=3))


async def test_a_context_by_name_wins_over_the_current_one():
    both = config({"token": "t"})
    both["contexts"].append({"name": "other", "context": {"cluster": "d", "user": "u"}})
    both["clusters"].append({"name": "d", "cluster": {"server": "http://d"}})
    assert (await resolve(KubeAccess(inline=both, context="other"))).server == "http://d"
    with pytest.raises(InvalidSpec, match=r"context 'third'.*main, other"):
        await resolve(KubeAccess(inline=both, context="third"))


async def test_files_of_kubeconfig_are_merged_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = tmp_path / "one", tmp_path / "two"
    first.write_text(json.dumps({"current-context": "main", "contexts": config({})["contexts"]}))
    second.write_text(json.dumps({**config({"token": "t"}), "current-context": "elsewhere"}))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'absent'}:{second}")
    assert (await resolve(KubeAccess())).server == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "Cannot read the kubeconfig"), ("- x", "Not a kubeconfig"), ("{}", "No context chosen")],
)
async def test_a_broken_kubeconfig_is_one_sentence(tmp_path: Path, text: str, said: str):
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(InvalidSpec, match=said):
        await resolve(KubeAccess(kubeconfig=str(file)))


async def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InvalidSpec, match="nowhere"):
        await resolve(KubeAccess(kubeconfig=str(tmp_path / "nowhere")))


async def test_in_cluster_outside_of_a_pod_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidSpec, match="Not in a cluster"):
        await resolve(KubeAccess(in_cluster=True))


async def test_a_proxy_of_the_environment_is_used_unless_the_host_is_exempt(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "")
    assert (await endpoint({})).proxy == "http://proxy:3128"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert (await endpoint({})).proxy is None
    assert (await endpoint({}, **{"proxy-url": "http://own:1"})).proxy == "http://own:1"


def test_credentials_do_not_stand_in_the_repr_and_survive_a_round_trip():
    access = KubeAccess(inline=config({"token": "s3cret"}), allowed_namespaces=("a",), dashboard="direct")
    assert "s3cret" not in repr(access)
    assert KubeAccess.from_dict(json.loads(json.dumps(access.to_dict()))) == access


def test_what_shares_a_client_has_one_key_whatever_its_namespaces():
    one, two = KubeAccess(kubeconfig="/a", namespace="x"), KubeAccess(kubeconfig="/a", namespace="y")
    assert (one.key, hash(one) == hash(two)) == (two.key, False)
    assert KubeAccess(kubeconfig="/a", context="c").key != one.key


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"kubeconfig": "/a", "in_cluster": True}, "kubeconfig and in_cluster"),
        ({"dashboard": "ingress"}, "write proxy or direct"),
        ({"kube_config": "/a"}, "unknown field kube_config"),
    ],
)
def test_a_contradictory_connection_is_refused(data: dict[str, Any], said: str):
    with pytest.raises(InvalidSpec, match=said):
        KubeAccess.from_dict(data)


async def test_a_retired_auth_provider_still_serves_and_an_unknown_one_says_so():
    gcp = {"name": "gcp", "config": {"access-token": "abc", "expiry": "2999-01-01T00:00:00Z"}}
    found = await endpoint({"auth-provider": gcp})
    assert await found.credentials.headers() == {"Authorization": "Bearer abc"}
    unknown = await endpoint({"auth-provider": {"name": "nobody", "config": {}}})
    with pytest.raises(TokenRefused, match="'nobody'"):
        await unknown.credentials.headers()
