"""From an Airflow connection to a backend, and from a flight to its archive. Resolved once per task or trigger.

Both Airflow's own ``kubernetes`` connections and ``rayflight`` connections are understood: the same extras (in_cluster,
kube_config_path, kube_config, cluster_context, namespace), and Rayflight's own: kubernetes_conn_id (a connection on
whose extras these stand), token, allowed_namespaces, dashboard and archive. With the extra ``{"backend": "local"}``
clusters are processes of this machine (extras folder, ray, network).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook, ObjectStoragePath
from airflow.sdk.exceptions import AirflowNotFoundException

from rayflight.airflow import forms, settings
from rayflight.errors import InvalidSpec
from rayflight.labels import digest

if TYPE_CHECKING:
    from rayflight.archive import Archive
    from rayflight.backends.base import ClusterBackend
    from rayflight.backends.local_access import LocalAccess
    from rayflight.kube.access import KubeAccess
    from rayflight.labels import Owner
    from rayflight.lifecycle.flight import Flight

    Access = KubeAccess | LocalAccess

DEFAULT_CONNECTION = "kubernetes_default"
NAMED = "kubernetes_conn_id"
_CREDENTIALS = {"kube_config_path", "kube_config", "in_cluster", "cluster_context"}
# The extras that mean something here, by backend; those of the other backend are not refused: a form stores them, too.
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "kubernetes": (
        "backend", NAMED, "kube_config_path", "kube_config", "in_cluster", "cluster_context", "token", "namespace",
        "allowed_namespaces", "dashboard", "archive", "disable_verify_ssl",
    ),
    "local": ("backend", "folder", "ray", "network", "namespace", "allowed_namespaces", "archive"),
}  # fmt: skip
# Of Airflow's own `kubernetes` connections: they mean something to its pods and nothing to a flight.
_IGNORED = (
    "disable_tcp_keepalive", "xcom_sidecar_container_image", "xcom_sidecar_container_resources",
    "xcom_sidecar_container_security_context",
)  # fmt: skip
_PREFIX = "extra__kubernetes__"  # old connections carry their extras under this prefix


def access(conn_id: str) -> Access:
    """Resolve in a task process. Raises InvalidSpec for a connection that is named but not there."""
    return from_extras(conn_id, extras(conn_id))


def extras(conn_id: str, find: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """What a connection says, on top of what the connection says that it names. Raises InvalidSpec.

    ``find`` replaces the SDK's way to a connection, which works in a task only.
    """
    find = find or BaseHook.get_connection
    own = _own(conn_id, find)
    named = own.get(NAMED)
    return own if named is None else _on_top(conn_id, own, _own(str(named), find))


async def aaccess(conn_id: str) -> Access:
    """Resolve on the triggerer's event loop, where the synchronous way would block it."""
    own = await _aown(conn_id)
    named = own.get(NAMED)
    return from_extras(conn_id, own if named is None else _on_top(conn_id, own, await _aown(str(named))))


def _own(conn_id: str, find: Callable[[str], Any]) -> dict[str, Any]:
    try:
        return _given(find(conn_id).extra_dejson)
    except AirflowNotFoundException:
        return _without(conn_id)


async def _aown(conn_id: str) -> dict[str, Any]:
    try:
        return _given((await BaseHook.aget_connection(conn_id)).extra_dejson)
    except AirflowNotFoundException:
        return _without(conn_id)


def _given(extras: Mapping[str, Any]) -> dict[str, Any]:
    """A form stores empty fields, too."""
    return {key.removeprefix(_PREFIX): value for key, value in extras.items() if value not in (None, "")}


def _on_top(conn_id: str, own: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """A switch that is off in the form says nothing: it must not switch off what the named connection says."""
    own = {key: value for key, value in own.items() if value is not False}
    twice = sorted(set(own) & _CREDENTIALS)
    if twice:
        why = f"{NAMED} and {', '.join(twice)} are both set"
        raise _unusable(conn_id, why, "keep one of them")
    return {**named, **own}


def _without(conn_id: str) -> dict[str, Any]:
    """As KubernetesHook does: in-cluster credentials or the default kubeconfig serve for its default connection."""
    if conn_id == DEFAULT_CONNECTION:
        return {}
    raise InvalidSpec(
        "Connection not found",
        which=repr(conn_id),
        why="Airflow has no connection of this id",
        next_step="create it (type Rayflight or Kubernetes), or name another with conn_id=",
    ) from None


def from_extras(conn_id: str, extras: Mapping[str, Any]) -> Access:
    """Pure: a connection's extras as the access of a backend. Raises InvalidSpec on contradictions."""
    values = _given(extras)
    kind = values.get("backend", "kubernetes")
    try:
        if kind not in _KINDS:
            raise ValueError(f"backend is {kind!r}, it must be one of {', '.join(_KINDS)}")
        _refuse_unknown(values)
        return _KINDS[kind](values)
    except InvalidSpec as error:
        raise _unusable(conn_id, error.why, error.next_step) from None
    except (TypeError, ValueError) as error:
        raise _unusable(conn_id, str(error), "correct its extras") from None


def _refuse_unknown(values: Mapping[str, Any]) -> None:
    """An extra that nobody reads is mostly one that was written wrong, and the flight would go elsewhere for it."""
    known = {name for names in _KNOWN.values() for name in names}
    for name in sorted(set(values) - known - set(_IGNORED)):
        close = difflib.get_close_matches(name, sorted(known), n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name}: unknown extra{hint}")


def _refuse_two_sources(values: Mapping[str, Any]) -> None:
    """KubeAccess refuses it, too, by the names of its own fields."""
    given = [name for name in ("kube_config_path", "kube_config") if values.get(name)]
    given += ["in_cluster"] if forms.truth(values.get("in_cluster", False), field="in_cluster") else []
    if len(given) > 1:
        raise ValueError(f"{', '.join(given[:-1])} and {given[-1]} are set, and each says where the credentials are")


def _kubernetes(values: Mapping[str, Any]) -> Access:
    from rayflight.kube.access import KubeAccess

    _refuse_two_sources(values)
    allowed = values.get("allowed_namespaces") or ()
    return KubeAccess(
        kubeconfig=values.get("kube_config_path"),
        inline=_inline(values.get("kube_config")),
        in_cluster=forms.truth(values.get("in_cluster", False), field="in_cluster"),
        context=values.get("cluster_context"),
        namespace=values.get("namespace") or "default",
        allowed_namespaces=tuple(allowed.replace(",", " ").split() if isinstance(allowed, str) else allowed),
        dashboard=values.get("dashboard", "proxy"),
        verify=not forms.truth(values.get("disable_verify_ssl", False), field="disable_verify_ssl"),
        token=values.get("token"),
    )


def _local(values: Mapping[str, Any]) -> Access:
    from rayflight.backends.local_access import LocalAccess

    return LocalAccess.from_extras(values, home=settings.home())


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Access]] = {"kubernetes": _kubernetes, "local": _local}


def _inline(given: object) -> dict[str, Any] | None:
    """A kubeconfig that stands in the connection, as JSON text or as data."""
    config = json.loads(given) if isinstance(given, str) else given
    if config is not None and not isinstance(config, dict):
        raise ValueError(f"kube_config holds a {type(config).__name__}, not a kubeconfig")
    return config


def _unusable(conn_id: str, why: str, next_step: str) -> InvalidSpec:
    step = f"{next_step}; see docs/connections.md"
    return InvalidSpec("Unusable connection", which=repr(conn_id), why=why, next_step=step)


def backend(access: Access) -> ClusterBackend:
    """The backend of that access (imported here: a DAG file must not pay for it)."""
    from rayflight.backends.local_access import LocalAccess

    if isinstance(access, LocalAccess):
        from rayflight.backends.local import LocalBackend

        return LocalBackend(access)
    from rayflight.backends.kubernetes import KubernetesBackend

    return KubernetesBackend(access)


def archive(url: str) -> Archive:
    """The flight's archive at its URL; opens nothing. Raises InvalidSpec for a URL of no known kind."""
    from rayflight.archive import Archive

    try:
        if "://" not in url:  # would be taken as relative to wherever this process happens to run
            raise ValueError("it is not a URL")
        return Archive(ObjectStoragePath(url), url=url)
    except ValueError as error:
        raise InvalidSpec(
            "Unusable archive",
            which=url,
            why=str(error),
            next_step="set [rayflight] archive (or archive=) to a URL like s3://conn@bucket/path or file:///shared/path",
        ) from None


def archive_url(base: str, owner: Owner) -> str:
    """Where one flight is kept: readable names, and a digest where the map index or odd characters would clash."""
    name = _plain(owner.group) + (f"/{owner.map_index}" if owner.map_index >= 0 else "")
    return f"{run_archive_url(base, owner.dag_id, owner.run_id)}/{name}"


def run_archive_url(base: str, dag_id: str, run_id: str) -> str:
    """Where all flights of one dag run are kept."""
    return f"{base.rstrip('/')}/{_plain(dag_id)}/{_plain(run_id)}"


def fleet(flight: Flight) -> Archive | None:
    """The base that the flight's archive was put below: what is kept over many runs stands there."""
    name = archive_url("", flight.owner)
    return archive(flight.archive.removesuffix(name)) if flight.archive.endswith(name) else None


def _plain(text: str) -> str:
    """A run id can hold `/`, `:` and `+`; a folder name is kept plain and stays unambiguous."""
    plain = "".join(char if char.isalnum() or char in "-_." else "_" for char in text)
    return plain if plain == text else f"{plain}-{digest(text, length=6)}"
