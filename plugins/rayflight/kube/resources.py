"""The kinds of objects that Rayflight asks the Kubernetes API for. Names only: no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind, named as the API's URLs name it."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The URL path of the collection or, with a name, of one object.

        >>> PODS.path("team-a", "x", "log")
        '/api/v1/namespaces/team-a/pods/x/log'
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace is not None:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{self.plural}"
        if name is not None:
            path += f"/{quote(name, safe=':')}"
        return f"{path}/{subresource}" if subresource else path

    @property
    def one(self) -> str:
        """A single object of it, for people.

        >>> SECRETS.one, PRIORITY_CLASSES.one
        ('secret', 'priorityclass')
        """
        return self.plural.removesuffix("es") if self.plural.endswith("sses") else self.plural.removesuffix("s")

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


RAYCLUSTERS = Resource("ray.io", "v1", "rayclusters")
PODS = Resource("", "v1", "pods")
EVENTS = Resource("", "v1", "events")
SERVICES = Resource("", "v1", "services")
SECRETS = Resource("", "v1", "secrets")
CONFIG_MAPS = Resource("", "v1", "configmaps")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
QUOTAS = Resource("", "v1", "resourcequotas")
LIMIT_RANGES = Resource("", "v1", "limitranges")
JOBS = Resource("batch", "v1", "jobs")
NODES = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)
RAYJOBS = Resource("ray.io", "v1", "rayjobs")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")
NEW_EVENTS = Resource("events.k8s.io", "v1", "events")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta1", "workloads")
LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta1", "localqueues")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", namespaced=False)
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")
