"""The real Kueue in front of the testbed's RayClusters: added to a testbed that is up, and taken out again.

A process of the host like the other controllers, in a root folder of its own, because two of its certificate paths are
constants (/visibility and /etc/kueue/metrics/certs) and the host is to stay as it is. Only what carries a queue label
is managed. While its webhooks are there and it does not run, every RayCluster and Job is refused: hence the order.
"""

import http.client
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed import build
from testbed.client import ApiClient, Json
from testbed.controlplane import Address
from testbed.errors import TestbedError
from testbed.kueue_objects import (
    API_SERVICES,
    HEALTH_PORT,
    NAME,
    NAMESPACE,
    RBAC,
    SERVICE,
    WEBHOOK_PORT,
    PodsReady,
    api_service,
    configuration,
    objects,
    parse_many,
)
from testbed.network import API_ADDRESS
from testbed.paths import Layout
from testbed.pki import Authority
from testbed.process import Daemon, Processes, wait_until

Say = Callable[[str], None]

# Others, such as pod, would stand in front of everything that happens here.
_HOOKS = ("clusterqueue", "cohort", "job", "raycluster", "rayjob", "resourceflavor", "workload")
_HOOK_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_HOOKS_PATH = "/apis/admissionregistration.k8s.io/v1"
_CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_APIS = "/apis/apiregistration.k8s.io/v1/apiservices"


@dataclass(frozen=True)
class Parts:
    """The built program, and the manifests of the same module."""

    program: Path
    manifests: Path


def prepare(cache: Path, say: Say) -> Parts:
    """Build Kueue if the cache has none."""
    return Parts(build.ensure(build.KUEUE, cache, say) / NAME, build.ensure_kueue_manifests(cache))


def is_on(processes: Processes) -> bool:
    """Whether it was added, whether or not it lives."""
    return NAME in processes.names()


@dataclass(frozen=True)
class Kueue:
    """Kueue of one testbed whose API server answers."""

    layout: Layout
    processes: Processes
    authority: Authority
    address: Address
    kubectl: Path
    client: ApiClient

    @property
    def _root(self) -> Path:
        return self.layout.state / NAME

    def add(self, parts: Parts, pods_ready: PodsReady | None, say: Say) -> None:
        """Make sure that it runs with this configuration and that its webhooks are in place."""
        if not wait_until(self._earlier_is_gone, 60):
            raise TestbedError(f"namespace {NAMESPACE} of an earlier Kueue does not go: see its status.conditions")
        for item in self._json(parts.manifests / "crds"):
            self._put(_CRDS, self._convertible(item))
        for item in self._json(parts.manifests / "roles"):
            item["metadata"]["name"] = f"{NAME}-{item['metadata']['name']}"
            self._put(f"{RBAC}/clusterroles", item)
        for path, item in objects():
            self.client.create(path, item)
        self._run(parts.program, pods_ready)
        for item in self._json(parts.manifests / "webhooks"):
            self._put(f"{_HOOKS_PATH}/{item['kind'].lower()}s", self._hooked(item))
        for name in API_SERVICES:
            self.client.create(_APIS, api_service(name))
        waits = f", takes clusters out that are not ready in {pods_ready.seconds} s" if pods_ready else ""
        say(f"Kueue v{build.KUEUE_VERSION} runs{waits}")

    def _run(self, program: Path, pods_ready: PodsReady | None) -> None:
        """Its process with this configuration; returns when it takes admission requests."""
        changed = self._furnish(program, pods_ready)
        if not wait_until(self._serves_crds, 30):
            raise TestbedError("the API server does not serve kueue.x-k8s.io 30 s after its CRDs were created")
        if changed:
            self.processes.stop([NAME])
        self.processes.start(self._daemon())
        if not wait_until(lambda: is_ready(self.authority) or self.processes.pid(NAME) is None, 60):
            raise TestbedError(f"Kueue is not ready after 60 s:\n{self.processes.log_tail(NAME)}")
        if self.processes.pid(NAME) is None:
            raise TestbedError(f"Kueue died at its start:\n{self.processes.log_tail(NAME)}")

    def pods_ready(self) -> PodsReady | None:
        """As it was last configured."""
        path = self._root / "config.json"
        told = json.loads(path.read_text()).get("waitForPodsReady") if path.exists() else None
        if told is None:
            return None
        again = told["requeuingStrategy"]
        seconds = int(told["timeout"].removesuffix("s"))
        return PodsReady(seconds, again["backoffBaseSeconds"], again["backoffLimitCount"])

    def remove(self, say: Say) -> None:
        """Webhooks first: without them nothing that Kueue does not answer is refused. Its objects go with its CRDs."""
        for kind in _HOOK_KINDS:
            for item in self.client.get(f"{_HOOKS_PATH}/{kind}")["items"]:
                if item["metadata"]["name"].startswith(f"{NAME}-"):
                    self.client.delete(f"{_HOOKS_PATH}/{kind}/{item['metadata']['name']}")
        for name in API_SERVICES:  # a served API that does not answer stops every deletion of a namespace
            self.client.delete(f"{_APIS}/{name}")
        for name in self._crds():
            self.client.delete(f"{_CRDS}/{name}")
        if not wait_until(lambda: not self._crds(), 20):
            self._let_go()
        self.processes.stop([NAME])
        self.processes.forget(NAME)
        shutil.rmtree(self._root, ignore_errors=True)
        self.client.delete(f"/api/v1/namespaces/{NAMESPACE}")
        if not wait_until(lambda: not self._crds(), 20):
            raise TestbedError(f"these CRDs of Kueue do not go: {', '.join(self._crds())}")
        say("Kueue was taken out: no webhook, CRD or process of it is left")

    def _furnish(self, program: Path, pods_ready: PodsReady | None) -> bool:
        """Its root folder; says whether the configuration of one that runs has changed."""
        hosts = (API_ADDRESS, "127.0.0.1", f"{SERVICE}.{NAMESPACE}.svc")
        pair = self.authority.issue(NAME, "/CN=kueue", hosts)
        for folder in ("certs", "visibility", "etc/kueue/metrics/certs"):
            (self._root / folder).mkdir(parents=True, exist_ok=True)
            for source, name in zip(pair, ("tls.crt", "tls.key"), strict=True):
                shutil.copyfile(source, self._root / folder / name)
        (self._root / "tmp").mkdir(exist_ok=True)
        if not (self._root / NAME).exists():
            shutil.copy2(program, self._root / "kueue.new")
            (self._root / "kueue.new").rename(self._root / NAME)
        self.authority.kubeconfig(self._root / "kubeconfig", self.address.url, "kueue-client", "/CN=kueue")
        path, text = self._root / "config.json", json.dumps(configuration(pods_ready), indent=1)
        changed = not path.exists() or path.read_text() != text
        path.write_text(text)
        return changed

    def _daemon(self) -> Daemon:
        argv = ("chroot", str(self._root), f"/{NAME}", "--config=/config.json", "--kubeconfig=/kubeconfig")
        return Daemon(NAME, argv, env={"POD_NAMESPACE": NAMESPACE})

    def _json(self, folder: Path) -> Iterator[Json]:
        """The objects of a folder of YAML; kubectl reads them, because the standard library has no YAML."""
        kubeconfig = f"--kubeconfig={self.layout.kubeconfig}"
        command = [str(self.kubectl), kubeconfig, "create", "--dry-run=client", "--validate=false", "-o=json"]
        done = subprocess.run([*command, f"-f={folder}"], capture_output=True, text=True)
        if done.returncode != 0:
            raise TestbedError(f"kubectl could not read {folder}: {done.stderr.strip()[-500:]}")
        yield from parse_many(done.stdout)

    def _convertible(self, crd: Json) -> Json:
        if crd["spec"]["names"]["plural"] in _CONVERTED:
            hook = {"clientConfig": self._reached_at("/convert"), "conversionReviewVersions": ["v1"]}
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
        return crd

    def _hooked(self, item: Json) -> Json:
        item["metadata"]["name"] = f"{NAME}-{item['metadata']['name']}"
        item["webhooks"] = [hook for hook in item["webhooks"] if hook["name"][1:].removesuffix(".kb.io") in _HOOKS]
        for hook in item["webhooks"]:
            hook["clientConfig"] = self._reached_at(hook["clientConfig"]["service"]["path"])
        return item

    def _reached_at(self, path: str) -> Json:
        return {"url": f"https://{API_ADDRESS}:{WEBHOOK_PORT}{path}", "caBundle": self.authority.bundle}

    def _put(self, collection: str, item: Json) -> None:
        """Create it, or make the one that is there the same."""
        status, answer = self.client.request("POST", collection, item)
        if status == 409:
            self.client.patch(f"{collection}/{item['metadata']['name']}", item)
        elif status not in (200, 201):
            name = item["metadata"]["name"]
            raise TestbedError(f"{name} was not accepted: {answer.get('message', answer)}"[:800])

    def _crds(self) -> list[str]:
        names = (item["metadata"]["name"] for item in self.client.get(_CRDS)["items"])
        return [name for name in names if name.endswith(".kueue.x-k8s.io")]

    def _earlier_is_gone(self) -> bool:
        status, answer = self.client.request("GET", f"/api/v1/namespaces/{NAMESPACE}")
        return status == 404 or "deletionTimestamp" not in answer["metadata"]

    def _serves_crds(self) -> bool:
        status, answer = self.client.request("GET", "/apis/kueue.x-k8s.io/v1beta2")
        return status == 200 and {"workloads", "clusterqueues"} <= {it["name"] for it in answer["resources"]}

    def _let_go(self) -> None:
        """Objects whose finalizers nobody takes away any more: Kueue itself was killed, or waits for a workload."""
        for plural in ("workloads", "localqueues", "clusterqueues", "resourceflavors"):
            status, answer = self.client.request("GET", f"/apis/kueue.x-k8s.io/v1beta2/{plural}")
            for item in answer.get("items", ()) if status == 200 else ():
                meta = item["metadata"]
                space = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
                path = f"/apis/kueue.x-k8s.io/v1beta2{space}/{plural}/{meta['name']}"
                self.client.request("PATCH", path, {"metadata": {"finalizers": None}})


def is_ready(authority: Authority) -> bool:
    """Whether it takes admission requests: its own readiness, and a handshake with its webhook server."""
    connection = http.client.HTTPConnection(API_ADDRESS, HEALTH_PORT, timeout=2)
    hooks = http.client.HTTPSConnection(
        API_ADDRESS, WEBHOOK_PORT, timeout=2, context=ssl.create_default_context(cafile=str(authority.certificate))
    )
    try:
        hooks.connect()
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
        hooks.close()
