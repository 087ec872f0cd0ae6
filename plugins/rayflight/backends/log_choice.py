"""Which of Ray's log files are worth keeping, in which order, and how much of each. Pure."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

# By what a person reads first. Directories and binary files are left out.
_WORTH = (
    re.compile(r"job-driver-.+\.log$"),
    re.compile(r"(raylet|gcs_server|dashboard|dashboard_agent|monitor)\.(log|out|err)$"),
    re.compile(r"runtime_env.*\.log$"),
    re.compile(r"(autoscaler|log_monitor|ray_process_exit).*\.(log|out|err)$"),
    re.compile(r"worker-.+\.(out|err)$"),
    re.compile(r"(jobs/)?supervisor-.+\.log$"),
    re.compile(r"train/.+\.log$"),
)


def rank(file: str) -> int:
    """The place of a file in that order, by its name below the log folder."""
    return next((number for number, pattern in enumerate(_WORTH) if pattern.match(file)), len(_WORTH))


def is_worth_keeping(file: str) -> bool:
    """False for directories and binary files."""
    return rank(file) < len(_WORTH)


def cut_mark(left_out: int) -> bytes:
    """What stands where so many bytes were cut out."""
    return f"\n... {left_out} bytes left out ...\n".encode()


async def head_and_tail(blocks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """The first and the last half of ``limit`` bytes of a longer stream, with a mark between; a shorter one whole."""
    half = limit // 2
    seen, tail = 0, bytearray()
    async for block in blocks:
        kept = block[: max(0, half - seen)]
        if kept:
            yield kept
        seen += len(block)
        tail += block[len(kept) :]
        if len(tail) > 2 * half:  # cut seldom: each cut copies
            del tail[: len(tail) - half]
    cut = max(0, seen - limit)
    if cut:
        yield cut_mark(cut)
        del tail[: max(0, len(tail) - half)]
    yield bytes(tail)
