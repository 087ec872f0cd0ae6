"""From an access to a reachable endpoint: server, TLS, credentials. Reads kubeconfigs; sends nothing to the API.

Read here and not by ``kubernetes_asyncio.config``: that imports 1,100 model modules, 0.95 s against 0.07 s for httpx,
in every task process (docs/decisions/0013-raw-http-to-kubernetes.md).
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rayflight.errors import InvalidSpec
from rayflight.kube.access import KubeAccess
from rayflight.kube.credentials import Credentials, ExecPlugin, FileToken, FixedCredentials, LegacyProvider

_REPAIR = "correct the kubeconfig of the connection"
_POD_SECRETS = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the API server is and how to prove who asks. ``tls_name`` is the name to verify instead of the host's."""

    server: str
    credentials: Credentials
    tls: ssl.SSLContext | bool = True
    proxy: str | None = None
    tls_name: str | None = None


async def resolve(access: KubeAccess) -> Endpoint:
    """The endpoint of that access. Raises InvalidSpec when the kubeconfig is missing, unreadable or incomplete."""
    if access.in_cluster:
        return await asyncio.to_thread(_in_cluster, access)
    if access.inline is not None:
        return await _from_config(access, access.inline, Path.cwd())
    paths = _paths(access)
    if paths:
        merged = await asyncio.to_thread(_read, paths)
        return await _from_config(access, merged, paths[0].parent)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return await asyncio.to_thread(_in_cluster, access)
    raise InvalidSpec(
        "No Kubernetes credentials",
        why="there is no kubeconfig and this is not a pod",
        next_step="set a kubeconfig in the connection, or KUBECONFIG",
    )


def _paths(access: KubeAccess) -> list[Path]:
    if access.kubeconfig:
        return [Path(access.kubeconfig).expanduser()]
    named = os.environ.get("KUBECONFIG", "")
    found = [Path(item) for item in named.split(os.pathsep) if item] or [Path.home() / ".kube/config"]
    return [path for path in found if path.exists()]


def _read(paths: list[Path]) -> dict[str, Any]:
    """Merge as kubectl does: the first file that names a thing wins."""
    import yaml  # noqa: PLC0415 - not needed in-cluster

    merged: dict[str, Any] = {}
    for path in paths:
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            why = str(error).replace("\n", " ")
            step = "correct kube_config_path of the connection, or put the file there on every worker and triggerer"
            raise InvalidSpec("Cannot read the kubeconfig", which=str(path), why=why, next_step=step) from error
        if not isinstance(data, dict):
            why = f"it holds a {type(data).__name__}"
            raise InvalidSpec("Not a kubeconfig", which=str(path), why=why, next_step=_REPAIR)
        for key, value in data.items():
            if isinstance(value, list):
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged.setdefault(key, value)
    return merged


async def _from_config(access: KubeAccess, config: Mapping[str, Any], base: Path) -> Endpoint:
    context = access.context or config.get("current-context")
    if not context:
        raise InvalidSpec("No context chosen", why="the kubeconfig has no current-context", next_step="name a context")
    chosen = _named(config, "contexts", str(context), "context")
    cluster = _named(config, "clusters", str(chosen.get("cluster")), "cluster")
    user = _named(config, "users", str(chosen.get("user")), "user") if chosen.get("user") else {}
    user = {"token": access.token} if access.token else user
    if not cluster.get("server"):
        which = f"cluster {chosen.get('cluster')!r}"
        raise InvalidSpec("Incomplete kubeconfig", which=which, why="it names no server", next_step=_REPAIR)
    _check_url(str(cluster["server"]))
    credentials = _credentials(user, base)
    if isinstance(credentials, ExecPlugin):
        status = await credentials.status()
        if status.get("clientCertificateData"):  # loaded once: rotated certificates need a new process
            pem = {"client-certificate-data": _b64(status["clientCertificateData"])}
            user = {**user, **pem, "client-key-data": _b64(status["clientKeyData"])}
    return Endpoint(
        server=str(cluster["server"]).rstrip("/"),
        credentials=credentials,
        tls=await asyncio.to_thread(_tls, access, cluster, user, base),
        proxy=cluster.get("proxy-url") or _environment_proxy(str(cluster["server"])),
        tls_name=cluster.get("tls-server-name"),
    )


def _named(config: Mapping[str, Any], section: str, name: str, kind: str) -> Mapping[str, Any]:
    for item in config.get(section) or ():
        if item.get("name") == name:
            found: Mapping[str, Any] = item.get(kind) or {}
            return found
    known = ", ".join(str(item.get("name")) for item in config.get(section) or ()) or "none"
    why = f"not there (there are: {known})"
    raise InvalidSpec("Incomplete kubeconfig", which=f"{kind} {name!r}", why=why, next_step=_REPAIR)


def _check_url(server: str) -> None:
    try:
        parts = urlsplit(server)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        why = "it is no URL like https://host:6443"
        raise InvalidSpec("Unusable server of the kubeconfig", which=repr(server), why=why, next_step=_REPAIR)


def _credentials(user: Mapping[str, Any], base: Path) -> Credentials:
    if user.get("exec"):
        return ExecPlugin(user["exec"], base)
    if user.get("tokenFile"):
        return FileToken(base / user["tokenFile"])
    if user.get("auth-provider") and not user.get("token"):
        return LegacyProvider(user)
    return FixedCredentials(user.get("token", ""), user.get("username", ""), user.get("password", ""))


def _tls(access: KubeAccess, cluster: Mapping[str, Any], user: Mapping[str, Any], base: Path) -> ssl.SSLContext | bool:
    if not str(cluster["server"]).startswith("https"):
        return False
    authority = _pem(cluster, "certificate-authority", base)
    try:
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify") or not access.verify:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        certificate, key = _pem(user, "client-certificate", base), _pem(user, "client-key", base)
        if certificate and key:
            _load_client_certificate(tls, certificate, key)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSpec("Unusable certificate", which="in the kubeconfig", why=str(error)) from error
    return tls


def _pem(section: Mapping[str, Any], name: str, base: Path) -> bytes:
    data, path = section.get(f"{name}-data"), str(section.get(name) or "")
    if data:
        return base64.b64decode(str(data))
    if not path:
        return b""
    try:
        return (base / path).read_bytes()
    except OSError as error:
        raise InvalidSpec("Cannot read a file of the kubeconfig", which=str(path), why=str(error)) from error


def _load_client_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The ssl module loads a key only from a file: it exists, readable by us alone, for the length of this call."""
    with tempfile.NamedTemporaryFile(prefix="rayflight-") as file:
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _environment_proxy(server: str) -> str | None:
    """HTTPS_PROXY and NO_PROXY, as every other client on this machine honours them."""
    parts = urlsplit(server)
    proxy = getproxies().get(parts.scheme)
    return None if proxy is None or proxy_bypass(parts.hostname or "") else proxy


def _in_cluster(access: KubeAccess) -> Endpoint:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (_POD_SECRETS / "token").exists():
        raise InvalidSpec(
            "Not in a cluster",
            why="in_cluster is set, but there is no service account token of a pod here",
            next_step="set a kubeconfig in the connection, or let the pod mount its service account token",
        )
    cluster = {"server": f"https://{f'[{host}]' if ':' in host else host}:{port}", "certificate-authority": "ca.crt"}
    return Endpoint(
        server=cluster["server"],
        credentials=FixedCredentials(access.token) if access.token else FileToken(_POD_SECRETS / "token"),
        tls=_tls(access, cluster, {}, _POD_SECRETS),
    )


def _b64(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()
