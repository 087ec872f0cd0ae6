"""The flaky proxy in front of an API server of our own: what each outcome does on the wire."""

from __future__ import annotations

import http.client
import http.server
import json
import shutil
import ssl
import threading

import pytest

from testbed.client import ApiClient
from testbed.controlplane import ADMIN
from testbed.errors import TestbedError
from testbed.faults_proxy import Answer, Cut, Drop, Hang, Pass, flaky_proxy
from testbed.pki import Authority

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the testbed makes certificates with openssl")

BROKEN = (ConnectionError, ssl.SSLError)


class Upstream(http.server.ThreadingHTTPServer):
    """Stands for the API server: says who calls and keeps what was asked; `/watch` sends one event and stays open."""

    daemon_threads = True

    def __init__(self, authority):
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("apiserver", "/CN=kube-apiserver", ("127.0.0.1",)))
        context.load_verify_locations(authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.carried_out = []
        self.watch_ends = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Upstream
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.carried_out.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/watch":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b'12\r\n{"type": "ADDED"}\n\r\n')
            self.wfile.flush()
            self.server.watch_ends.wait(10)
            return
        subject = dict(pair for part in (self.connection.getpeercert() or {}).get("subject", ()) for pair in part)
        answer = {"user": subject.get("commonName"), "token": self.headers.get("Authorization"), "body": body}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - http.server looks for this name

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def upstream(authority):
    with Upstream(authority) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.watch_ends.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(authority, upstream, tmp_path):
    with flaky_proxy(authority, f"https://127.0.0.1:{upstream.server_port}", tmp_path / "kubeconfig") as running:
        yield running


@pytest.fixture
def client(authority, proxy):
    return ApiClient(proxy.url, authority.certificate, *authority.issue("admin", ADMIN))


def who(authority, proxy, *, admin=False, **headers):
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if admin:
        context.load_cert_chain(*authority.issue("admin", ADMIN))
    connection = http.client.HTTPSConnection(proxy.url.removeprefix("https://"), timeout=5, context=context)
    connection.request("GET", "/who", headers=headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_in_fair_weather_a_request_arrives_whole_and_as_admin(client):
    status, answer = client.request("POST", "/x", {"name": "n" * 200_000})
    assert (status, answer["user"]) == (200, "testbed-admin")
    assert json.loads(answer["body"]) == {"name": "n" * 200_000}


def test_a_caller_without_certificate_is_nobody_behind_the_proxy_too(authority, proxy):
    assert who(authority, proxy)["user"] is None


@pytest.mark.parametrize("admin", [False, True])
def test_a_token_is_passed_on_without_the_admins_certificate(authority, proxy, admin):
    answer = who(authority, proxy, admin=admin, Authorization="Bearer t")
    assert (answer["user"], answer["token"]) == (None, "Bearer t")


def test_a_refused_request_gets_a_status_object_and_does_not_arrive(client, proxy, upstream):
    proxy.follow([Answer(429, retry_after=3)])
    status, answer = client.request("POST", "/x", {"big": "b" * 8_000_000})
    assert (status, answer["reason"], answer["details"]) == (429, "TooManyRequests", {"retryAfterSeconds": 3})
    assert upstream.carried_out == []


def test_outcomes_come_in_turn_and_only_for_requests_that_match(client, proxy):
    proxy.follow([Answer(503), Pass()], match=r"^GET /api/v1/pods")
    paths = ("/api/v1/pods", "/healthz", "/api/v1/pods?watch=1", "/api/v1/pods")
    assert [client.request("GET", path)[0] for path in paths] == [503, 200, 200, 503]
    assert [seen.line for seen in proxy.seen] == [f"GET {path}" for path in paths]


def test_clear_ends_the_weather(client, proxy):
    proxy.follow([Answer(503)])
    proxy.clear()
    assert client.request("GET", "/x")[0] == 200


def test_a_dropped_request_gets_no_answer_and_does_not_arrive(client, proxy, upstream):
    proxy.follow([Drop()])
    with pytest.raises(BROKEN):
        client.request("GET", "/x")
    assert upstream.carried_out == []


def test_a_request_can_be_carried_out_though_its_answer_is_lost(client, proxy, upstream):
    proxy.follow([Drop(after_request=True)])
    with pytest.raises(BROKEN):
        client.request("POST", "/x", {})
    assert upstream.carried_out == ["POST /x"]


def test_an_answer_can_be_cut_in_the_middle(client, proxy):
    proxy.follow([Cut(after_bytes=150)])
    with pytest.raises(BROKEN):
        client.request("POST", "/x", {"name": "n" * 10_000})


def test_a_request_that_hangs_ends_when_it_is_cut(client, proxy):
    proxy.follow([Hang()])
    failures = []

    def ask():
        try:
            client.request("GET", "/x")
        except BROKEN as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not proxy.seen:
        thread.join(0.01)
    assert proxy.cut_open_connections() == 1
    thread.join(5)
    assert failures


def test_an_open_watch_streams_through_and_can_be_cut(authority, proxy):
    context = ssl.create_default_context(cafile=str(authority.certificate))
    connection = http.client.HTTPSConnection(proxy.url.removeprefix("https://"), timeout=5, context=context)
    connection.request("GET", "/watch")
    answer = connection.getresponse()
    assert answer.readline() == b'{"type": "ADDED"}\n'
    assert proxy.cut_open_connections() == 1
    with pytest.raises((*BROKEN, http.client.IncompleteRead)):
        answer.read()
    connection.close()


def test_a_taken_port_is_said(authority, proxy, tmp_path):
    port = int(proxy.url.rsplit(":", 1)[1])
    with (
        pytest.raises(TestbedError, match=f"cannot listen on 127.0.0.1:{port}"),
        flaky_proxy(authority, proxy.url, tmp_path / "other", port=port),
    ):
        pytest.fail("it listens twice")


def test_its_kubeconfig_goes_with_it(authority, upstream, tmp_path):
    with flaky_proxy(authority, f"https://127.0.0.1:{upstream.server_port}", tmp_path / "kubeconfig") as running:
        assert json.loads(running.kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == running.url
    assert not (tmp_path / "kubeconfig").exists()
