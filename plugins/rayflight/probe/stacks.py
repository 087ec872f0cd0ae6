"""The driver of the look inside: asks on each Ray node for state and stack of its processes, prints one line.

``RAYFLIGHT_STACKS_RESULT {json}`` on standard output is all that is read by machine. The state comes from /proc; the
stack from py-spy if that may look into the process, else from the process itself, by the signal of ``hook``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from . import child, hook

MARK = "RAYFLIGHT_STACKS_RESULT"
_PY_SPY_SECONDS = 8.0
_SIGNAL_SECONDS = 3.0
_LONGEST = 64 * 1024  # characters of one dump

Answer = dict[str, str]


def main(arguments: list[str] | None = None) -> int:
    """Ask, print, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask", type=json.loads, required=True, help='JSON: {"node id": [pid, ...]}')
    parser.add_argument("--between", type=float, default=0.0, help="seconds between two samples; 0 for one sample")
    parser.add_argument("--seconds", type=float, default=40.0, help="for all of it")
    options = parser.parse_args(arguments)
    end = threading.Timer(options.seconds, os._exit, (3,))  # Ray's own calls have no deadline when its GCS is dead
    end.daemon = True
    end.start()
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    result = ask(options.ask, options.between, options.seconds * 0.8)
    sys.stdout.write(f"{MARK} {json.dumps(result)}\n")
    sys.stdout.flush()
    return 0


def ask(wanted: dict[str, list[int]], between: float, seconds: float) -> dict[str, Any]:
    """By Ray node and pid: one answer per sample. A node that does not answer in time is named with the reason."""
    look = ray.remote(num_cpus=0, max_retries=0)(samples)
    asked = {
        node: look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(pids, between)
        for node, pids in wanted.items()
    }
    deadline = time.monotonic() + seconds
    found: dict[str, Any] = {}
    for node, reference in asked.items():
        try:
            found[node] = ray.get(reference, timeout=max(0.1, deadline - time.monotonic()))
        except ray.exceptions.RayError as error:  # its time-out is one, too
            found[node] = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
    return found


def samples(pids: list[int], between: float) -> dict[str, list[Answer]]:
    """On the processes' own Ray node: one or two looks at each."""
    found = {str(pid): [look_at(pid)] for pid in pids}
    if between > 0:
        time.sleep(between)
        for pid in pids:
            found[str(pid)].append(look_at(pid))
    return found


def look_at(pid: int) -> Answer:
    """State and stack of one process, or why there is none."""
    state = state_of(pid)
    if state in ("", "T", "Z"):
        return {"state": state, "why": "there is no such process" if not state else "it runs no instruction"}
    text, why = by_py_spy(pid)
    if text:
        return {"state": state, "how": "py-spy", "stack": text}
    text, signal_why = by_signal(pid)
    if text:
        return {"state": state, "how": "faulthandler", "stack": text}
    return {"state": state, "why": f"{why}; {signal_why}"}


def state_of(pid: int) -> str:
    """The kernel's letter for it, or nothing where it is gone."""
    return _status(pid).get("State", "")[:1]


def by_py_spy(pid: int) -> tuple[str, str]:
    """(dump, why there is none)."""
    program = shutil.which("py-spy")
    if program is None:
        return "", "py-spy is not installed"
    code, output, problem = child.run([program, "dump", "--pid", str(pid)], _PY_SPY_SECONDS)
    if code == 0 and not problem:
        return output[:_LONGEST], ""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return "", f"py-spy: {problem or (lines[-1] if lines else code)}"[:300]


def by_signal(pid: int) -> tuple[str, str]:
    """(dump, why there is none). Sends the signal only to who listens: it would end any other process."""
    path = hook.path_of(pid)
    if not path.exists() or not _catches(pid):
        return "", "it listens to no signal (stack_signal of the job is off)"
    before = path.stat().st_size
    try:
        os.kill(pid, hook.SIGNAL)
    except OSError as error:
        return "", f"it cannot be signalled: {error}"
    size, deadline = before, time.monotonic() + _SIGNAL_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.2)
        now = path.stat().st_size
        if now > before and now == size:
            return _from(path, before), ""
        size = now
    return "", "it did not answer the signal"


def _from(path: Path, offset: int) -> str:
    with path.open(errors="replace") as file:
        file.seek(offset)
        return file.read(_LONGEST)


def _catches(pid: int) -> bool:
    caught = int(_status(pid).get("SigCgt", "0"), 16)
    return bool(caught >> (hook.SIGNAL - 1) & 1)


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


if __name__ == "__main__":
    raise SystemExit(main())
