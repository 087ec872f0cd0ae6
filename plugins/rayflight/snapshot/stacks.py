"""Stack dumps as facts: what py-spy (Ray's `/worker/traceback`) and faulthandler print. Pure text.

A training process has many threads; the one that trains is found by its name (Ray Train names it), else by who stands
deepest in code that is neither Ray's nor Python's own.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from rayflight.snapshot.hang import Frame, Sample

# py-spy 0.4 `dump`: `Thread 852 (idle): "TrainingThread(f)"`, then `    Queue.get (queue.py:171)`, innermost first.
_THREAD = re.compile(r'^Thread (?P<id>\S+) \((?P<state>[^)]*)\)(?:: "(?P<name>.*)")?$')
_CALL = re.compile(r"^\s+(?P<function>.+) \((?P<file>[^()]+?)(?::(?P<line>\d+))?\)$")
# faulthandler: `Current thread 0x… (most recent call first):`, then `  File "/app/train.py", line 3 in main`.
_FAULT_THREAD = re.compile(
    r"^(?:Current thread|Thread) (?P<id>0x\w+)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
)
_FAULT_CALL = re.compile(r'^\s+File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')
# py-spy seizes the process; one in a group stop answers with that stop instead of the seizure's own SIGTRAP.
_STOPPED = re.compile(r"unexpected waitpid result PtraceEvent\(Pid\(\d+\), SIG(STOP|TSTP|TTIN|TTOU), 128\)")
_SHORT = re.compile(r"^.*/(?:site-packages|dist-packages|working_dir_files/[^/]+|py_modules_files/[^/]+|python3\.\d+)/")
_HELPERS = re.compile(r"^(PythonGCThread|MonitoringThread|AsyncIO Thread|QueueFeederThread|ray_)")
_TRAINS = "TrainingThread("


@dataclass(frozen=True, slots=True)
class _Thread:
    name: str
    busy: bool
    frames: tuple[Frame, ...]

    def depth(self) -> tuple[bool, int]:
        """Whether it is the one that trains: Ray Train's, else the one with the most code of others in it."""
        if _HELPERS.match(self.name):
            return False, 0
        return self.name.startswith(_TRAINS), sum(not is_machinery(frame) for frame in self.frames)


def read_dump(text: str, how: str) -> Sample:
    """The training thread of a dump, as py-spy or faulthandler print it; a dump without a thread says so."""
    threads = _threads(text)
    if not threads:
        return Sample(why=f"no thread in {how}'s answer", how=how)
    best = max(threads, key=_Thread.depth)
    if best.depth() == (False, 0):  # nothing but machinery: the main thread is what people expect to see
        best = next((thread for thread in threads if thread.name == "MainThread"), threads[-1])  # the oldest
    return Sample(frames=best.frames, busy=best.busy, how=how)


def read_refusal(text: str) -> Sample:
    """What an answer without a stack says: a process that is stopped shows by py-spy's very failure."""
    if _STOPPED.search(text):
        return Sample(state="T", why="py-spy found the process stopped", how="py-spy")
    if "Permission Denied" in text or "Operation not permitted" in text:
        return Sample(why="py-spy may not look into processes of this container (ptrace)")
    if "Profiling is disabled" in text:
        return Sample(why="this Ray serves no stacks (RAY_DASHBOARD_ENABLE_PROFILING is not 1 on the head)")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Sample(why=(lines[-1] if lines else "an empty answer")[:300])


def is_machinery(frame: Frame) -> bool:
    """Whether the frame is Ray's or Python's own: every worker has it, whatever it trains."""
    top = frame.file.partition("/")[0].removesuffix(".py")
    return top == "ray" or top in sys.stdlib_module_names or frame.file.startswith("<frozen ")


def _threads(text: str) -> list[_Thread]:
    found: list[tuple[str, bool, list[Frame]]] = []
    for line in text.splitlines():
        if header := _THREAD.match(line) or _FAULT_THREAD.match(line):
            said = header.groupdict()
            found.append((said.get("name") or "", "active" in (said.get("state") or ""), []))
        elif found and (call := _FAULT_CALL.match(line) or _CALL.match(line)):
            found[-1][2].append(
                Frame(function=call["function"], file=_SHORT.sub("", call["file"]), line=int(call["line"] or 0))
            )
    return [_Thread(name, busy, tuple(frames)) for name, busy, frames in found if frames]
