"""Runs one measurement in a process of its own, so that a driver that hangs or crashes costs an answer, not the probe.

A process in uninterruptible sleep cannot be killed: it is named, and left behind rather than waited for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_GONE_SECONDS = 2.0  # a killed process that is still there after this is held by the kernel


def in_child(module: str, seconds: float, arguments: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON object that ``module`` of this package prints, or ``{"ok": False, "error": why}``. Never raises."""
    package = __package__ or ""
    root = Path(__file__).resolve().parents[len(package.split("."))]
    # -S: no site-packages are needed, and starting without them is quicker.
    code, output, problem = run([sys.executable, "-S", "-m", f"{package}.{module}", *arguments], seconds, cwd=root)
    if problem:
        return {"ok": False, "error": problem}
    try:
        answer = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        answer = None
    if not isinstance(answer, dict):
        return {"ok": False, "error": f"{module} ended with {_ending(code)} and no result: {output[-200:].strip()}"}
    return answer


def run(command: list[str], seconds: float, cwd: Path | None = None) -> tuple[int, str, str]:
    """(exit code, standard output and error, why there is no answer). Returns soon after the deadline in any case."""
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            text=True,
            errors="replace",
            start_new_session=True,  # so that it can be killed with all its children
        )
    except OSError as error:
        return -1, "", f"could not be started: {error}"
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return -1, "", f"did not answer within {seconds:g} s{_killed(process)}"
    return process.returncode, output, ""


def _killed(process: subprocess.Popen[str]) -> str:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return ""
    try:
        process.wait(_GONE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"; {held(process.pid) or f'process {process.pid} does not end'}"
    return ""


def held(pid: int) -> str:
    """Why a killed process is still there; empty when it is gone or only waits for its parent."""
    try:
        state = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    if state in ("Z", "X"):
        return ""
    return f"process {pid} is held by the kernel (state {state})" if state == "D" else f"process {pid} is still there"


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
