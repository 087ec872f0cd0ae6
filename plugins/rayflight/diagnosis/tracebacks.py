"""The user's own last frame and the error of a Python traceback in a log. Pure text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rayflight.diagnosis.quoting import ASIDE

_FRAME = re.compile(r'^(?P<prefix>.*?)\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
# Ray prints a remote traceback behind its own name: ``ray.exceptions.RayTaskError(ValueError): ray::f() (pid=``.
_START = re.compile(r"Traceback \(most recent call last\):|^(?:\S*RayTaskError\([^)]*\): )?\S*ray::\S+\(")
_ERROR = re.compile(
    r"^(?:\S*\.)?(?P<name>[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration|Warning|Timeout|Failure))\b:?(?P<text>.*)$"
)
_LOGGED = re.compile(r"\b(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b")
_PREFIX = re.compile(r"^\([^()]*pid=\d+[^()]*\)\s?")
_FOREIGN = re.compile(
    r"site-packages/|dist-packages/|/lib/python3[.\d]*/|<frozen |/ray/(?:_private|train|util|dashboard)/"
)

# They only pass on that something else has failed; what it was stands before them.
_MESSENGERS = ("TrainingFailedError", "TuneError", "ChildFailedError", "CalledProcessError")

_WORKERS = "Training failed due to worker errors:"
_SNIPPET = re.compile(r"\[Rank (?P<ranks>[\d,\s.+-]+?) Error Snippet\]:")
# What the other ranks say when one has died: it explains nothing.
_COLLATERAL = re.compile(
    r"Connection (closed|reset)|gloo|NCCL|Broken pipe|Socket Timeout|DistBackendError|store->get|recvValue",
    re.IGNORECASE,
)


# Words of collectives about a process at the other end. (A download's reset connection is the user's own affair.)
_PEER_LOST = re.compile(
    r"gloo.*(?:Connection (?:closed|reset)|Timed out|Broken pipe)|Connection closed by peer \[|ncclRemoteError"
    r"|remote process exited|communicator was aborted|Socket Timeout|recvValue failed|store->get",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Which exception, and where in the user's own code (empty where no frame is the user's)."""

    error: str
    text: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    quoted: str = ""
    ranks: str = ""

    @property
    def of_another(self) -> bool:
        """It says that another process has gone or failed, not what was wrong with it."""
        return self.error in _MESSENGERS or _PEER_LOST.search(self.quoted) is not None

    @property
    def where(self) -> str:
        """``train.py, line 12, in main``; the whole file name, for there may be two of one name."""
        return f"{self.file}, line {self.line}{f', in {self.function}' if self.function else ''}" if self.file else ""


def last_crash(text: str) -> Crash | None:
    """The last traceback's error and the deepest frame that is the user's; None where there is no traceback.

    Of a chain ("During handling of ...") the last one counts: it ended the program; but not a messenger, which only
    says that a worker failed. Of Ray Train's list of ranks the first counts that does not merely say that another one
    is gone.
    """
    failed = text.rpartition(_WORKERS)[2] if _WORKERS in text else ""
    return _of_ranks(failed) or _last(text)


def _of_ranks(text: str) -> Crash | None:
    marks = list(_SNIPPET.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    found = [
        replace(crash, ranks=" ".join(mark["ranks"].split()))
        for mark, end in zip(marks, ends, strict=False)
        if (crash := _last(text[mark.end() : end]))
    ]
    return next((item for item in found if not _COLLATERAL.search(item.quoted)), found[0] if found else None)


def _last(text: str) -> Crash | None:
    written = text.splitlines()
    lines = [_PREFIX.sub("", line) for line in written]
    starts = [number for number, line in enumerate(lines) if _START.search(line)]
    crashes = (crash for start in reversed(starts) if (crash := _read(lines[start:])) and not _lived(written, start))
    last = next(crashes, None)
    return (_behind(crashes) or last) if last and last.error in _MESSENGERS else last


def _lived(written: list[str], start: int) -> bool:
    """Whether the driver had its own say after a traceback that was only reported: by another process, or a logger.

    What ends the driver itself stands unprefixed, and no logger's line before it.
    """
    reported = _PREFIX.match(written[start]) or _LOGGED.search(written[start])
    if not reported and not (start and _LOGGED.search(written[start - 1])):
        return False
    end = next((at for at in range(start + 1, len(written)) if _ERROR.match(_PREFIX.sub("", written[at]))), start)
    return any(line.strip() and not _PREFIX.match(line) and not ASIDE.match(line) for line in written[end + 1 :])


def _behind(crashes: Iterator[Crash]) -> Crash | None:
    """What the messenger speaks of: an error is printed at each hand-over, and once with the user's frame."""
    told = next((crash for crash in crashes if crash.error not in _MESSENGERS), None)
    if told is None or told.file:
        return told
    same = (crash for crash in crashes if (crash.error, crash.text) == (told.error, told.text))
    return next((crash for crash in same if crash.file), told)


def _read(lines: list[str]) -> Crash | None:
    frame: re.Match[str] | None = None
    for line in lines[1:]:
        seen = _FRAME.match(line)
        if seen and not _FOREIGN.search(seen["file"]):
            frame = seen
        error = _ERROR.match(line)
        if error:
            return Crash(
                error=error["name"],
                text=error["text"].strip(),
                file=frame["file"] if frame else "",
                line=int(frame["line"]) if frame else 0,
                function=(frame["function"] or "") if frame else "",
                quoted=line.strip(),
            )
    return None
