"""Carries a step's result or error from the triggerer to the task as plain data, and back into the same exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rayflight import errors
from rayflight.findings import Check, Diagnosis


def failure(error: errors.RayflightError) -> dict[str, Any]:
    """The event of a step that raised."""
    data: dict[str, Any] = {
        "error": type(error).__name__,
        "what": error.what,
        "which": error.which,
        "why": error.why,
        "next_step": error.next_step,
    }
    if isinstance(error, errors.Diagnosed):
        data["diagnosis"] = error.diagnosis.to_dict()
    if isinstance(error, errors.VerificationFailed):
        data["checks"] = [asdict(check) for check in error.checks]
    return data


def result(event: Mapping[str, Any]) -> dict[str, Any]:
    """The step's result. Raises what the step raised."""
    if "error" in event:
        raise rebuild(event)
    return dict(event["result"])


def rebuild(event: Mapping[str, Any]) -> errors.RayflightError:
    """The exception of ``failure``'s data."""
    kind: type[errors.RayflightError] = getattr(errors, event["error"])
    if issubclass(kind, errors.VerificationFailed):
        checks = [Check(**row) for row in event["checks"]]
        return kind(
            event["what"], which=event["which"], diagnosis=Diagnosis.from_dict(event["diagnosis"]), checks=checks
        )
    if issubclass(kind, errors.Diagnosed):
        return kind(
            event["what"],
            which=event["which"],
            diagnosis=Diagnosis.from_dict(event["diagnosis"]),
            next_step=event["next_step"],
        )
    return kind(event["what"], which=event["which"], why=event["why"], next_step=event["next_step"])
