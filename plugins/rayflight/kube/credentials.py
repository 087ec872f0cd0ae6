"""The Authorization header of a Kubernetes user: fixed, read from a file, made by a plugin. Decides nothing.

``kubernetes_asyncio`` is imported only for the legacy ``auth-provider`` users: it costs 0.95 s and 90 MB per process.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from rayflight.errors import TokenRefused

_FILE_TOKEN_SECONDS = 60.0  # kubelet rotates projected tokens at 80 % of their life: a minute is soon enough
_EXPIRY_SKEW_SECONDS = 60.0  # a token must outlive the request that carries it
_PLUGIN_SECONDS = 60.0  # cloud plugins answer in seconds; one that asks a person never does


class Credentials(Protocol):
    """Gives the headers that prove who asks."""

    async def headers(self) -> dict[str, str]:
        """The headers for the next request."""
        ...

    def forget(self) -> None:
        """The server refused them: ask the source again next time."""
        ...


class FixedCredentials:
    """A token or a password that stands in the kubeconfig, or nothing at all (client certificates)."""

    def __init__(self, token: str = "", username: str = "", password: str = "") -> None:
        self._headers: dict[str, str] = {}
        if token:
            self._headers = {"Authorization": f"Bearer {token}"}
        elif username:
            pair = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._headers = {"Authorization": f"Basic {pair}"}

    async def headers(self) -> dict[str, str]:
        """Always the same."""
        return dict(self._headers)

    def forget(self) -> None:
        """Nothing to ask again."""


class FileToken:
    """A token in a file that somebody else rotates (service accounts)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._read_at = float("-inf")

    async def headers(self) -> dict[str, str]:
        """The file's content, at most a minute old."""
        if time.monotonic() - self._read_at > _FILE_TOKEN_SECONDS:
            try:
                self._token = (await asyncio.to_thread(self._path.read_text)).strip()
            except OSError as error:
                raise TokenRefused("Cannot read the token file", which=str(self._path), why=str(error)) from error
            self._read_at = time.monotonic()
        return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        """Read the file again."""
        self._read_at = float("-inf")


class ExecPlugin:
    """A client-go credential plugin (EKS, GKE, AKS): runs a command, keeps its answer until it expires."""

    def __init__(self, spec: Mapping[str, Any], base: Path) -> None:
        self._spec, self._base = spec, base
        self._status: Mapping[str, Any] | None = None
        self._expires_at = float("inf")
        self._running = asyncio.Lock()

    async def status(self) -> Mapping[str, Any]:
        """The plugin's ``ExecCredential.status``: a token, or a client certificate."""
        async with self._running:  # one run serves all who wait for it
            if self._status is None or time.time() > self._expires_at - _EXPIRY_SKEW_SECONDS:
                self._status = await self._ask()
                stamp = self._status.get("expirationTimestamp")
                self._expires_at = _epoch(stamp) if stamp else float("inf")
            return self._status

    async def headers(self) -> dict[str, str]:
        """The plugin's token, if it gives one."""
        token = (await self.status()).get("token")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def forget(self) -> None:
        """Run the plugin again."""
        self._status = None

    async def _ask(self) -> Mapping[str, Any]:
        command = str(self._spec.get("command", ""))
        if "/" in command and not Path(command).is_absolute():
            command = str(self._base / command)
        version = self._spec.get("apiVersion", "client.authentication.k8s.io/v1")
        ask = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        extra = {item["name"]: item["value"] for item in self._spec.get("env") or ()}
        env = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(ask)}
        try:
            output = await _run([command, *map(str, self._spec.get("args") or ())], env)
            status: Mapping[str, Any] = json.loads(output)["status"]
        except (OSError, TimeoutError, ValueError, KeyError) as error:
            hint = self._spec.get("installHint") or "run the command by hand to see what it says"
            why = str(error) or type(error).__name__
            raise TokenRefused("The credential plugin failed", which=command, why=why, next_step=hint) from error
        return status


class LegacyProvider:
    """The retired ``auth-provider`` users of a kubeconfig (oidc, gcp): left to kubernetes_asyncio."""

    def __init__(self, user: Mapping[str, Any]) -> None:
        self._user = {key: user[key] for key in ("auth-provider",)}
        self._token = ""

    async def headers(self) -> dict[str, str]:
        """The provider's token, refreshed by kubernetes_asyncio when it has expired."""
        if not self._token:
            self._token = await self._ask()
        return {"Authorization": self._token}

    def forget(self) -> None:
        """Ask the provider again."""
        self._token = ""

    async def _ask(self) -> str:
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415 - heavy, see the module docstring
        from kubernetes_asyncio.config import ConfigException, load_kube_config_from_dict  # noqa: PLC0415

        only_the_user = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": "https://localhost"}}],
            "users": [{"name": "x", "user": self._user}],
        }
        configuration = Configuration()
        try:
            await load_kube_config_from_dict(only_the_user, client_configuration=configuration)
        except ConfigException as error:
            raise TokenRefused("The kubeconfig's auth-provider failed", why=str(error)) from error
        token = str(configuration.api_key.get("BearerToken", ""))
        if not token:
            name = (self._user["auth-provider"] or {}).get("name")
            raise TokenRefused(
                "The kubeconfig's auth-provider gave no token",
                which=repr(name),
                next_step="use an exec plugin or a token: clients have dropped auth-providers",
            )
        return token


async def _run(command: list[str], env: dict[str, str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_PLUGIN_SECONDS):
            output, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise OSError(f"exit code {process.returncode}: {complaint.decode(errors='replace').strip()[-500:]}")
    return output


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).astimezone(UTC).timestamp()
