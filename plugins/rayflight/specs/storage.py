"""Where checkpoints live: a claim that every pod mounts, or an object store. Data only."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Tag

from rayflight.specs.strict import Strict


def absolute_path(value: str) -> str:
    """Check a path inside a container."""
    if not PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
        raise ValueError(f"{value!r} must be an absolute path without '..', for example /mnt/checkpoints")
    return value


def _relative_path(value: str) -> str:
    if PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
        raise ValueError(f"{value!r} must be a path inside the claim: relative and without '..'")
    return value


def _url(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not (scheme and separator and rest) or scheme == "file":
        raise ValueError(f"{value!r} must be the URL of an object store, for example s3://bucket/folder")
    return value


class PvcStorage(Strict):
    """A PersistentVolumeClaim (ReadWriteMany) mounted into the head pod and every worker pod."""

    claim: str
    mount_path: Annotated[str, AfterValidator(absolute_path)] = "/mnt/rayflight"
    sub_path: Annotated[str, AfterValidator(_relative_path)] | None = None

    def under(self, *parts: str) -> str:
        """Path as scripts see it, below the root of this storage."""
        return str(PurePosixPath(self.mount_path, *parts))


class ObjectStorage(Strict):
    """An object store; ``secret`` names a Secret whose keys become environment variables of every pod."""

    url: Annotated[str, AfterValidator(_url)]
    secret: str | None = None

    def under(self, *parts: str) -> str:
        """URL as scripts see it, below the root of this storage."""
        return "/".join([self.url.rstrip("/"), *parts])


def _kind(value: Any) -> str | None:
    if isinstance(value, PvcStorage) or (isinstance(value, dict) and "claim" in value):
        return "claim"
    return "url" if isinstance(value, ObjectStorage) or (isinstance(value, dict) and "url" in value) else None


Storage = Annotated[
    Annotated[PvcStorage, Tag("claim")] | Annotated[ObjectStorage, Tag("url")],
    Discriminator(
        _kind,
        custom_error_type="storage_kind",
        custom_error_message="name either a `claim` (a PersistentVolumeClaim) or a `url` (an object store)",
    ),
]
