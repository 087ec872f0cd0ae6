"""Carries the driver log from the cluster into the archive and the task log, each byte once.

The archive's last segment is the cursor; the source is read by byte range. A segment is written first and said second,
so the archive is exact, and whoever goes on after a kill says the last segment again, for it may not have been said
(each block names its byte range). A flood of lines is left to the archive: the task log of one chatty training must not
keep the event loop from all others.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rayflight.archive import SegmentedLog
from rayflight.backends.base import RayJobs
from rayflight.lifecycle.flight import Tools
from rayflight.snapshot.model import Job

PROGRESS = b"RAYFLIGHT_PROGRESS "
# Ray Train's controller, when its ranks have started (train/v2/…/worker_group.py): the one place where pids have ranks.
_RANK = re.compile(rb"\(ip=(?P<ip>[^,\s]+), pid=(?P<pid>\d+)\) world_rank=(?P<rank>\d+), local_rank=(?P<local>\d+)")
_TAIL = 400  # last lines that a diagnosis reads: several failures of Ray Train with their tracebacks
RESULT = "RAYFLIGHT_RESULT "  # what a function returned: for a machine, and up to 256 KiB long
_SHOWN = 80
_BLOCK = 1024 * 1024  # bytes per request and per segment
_MOST_LINES = 1000  # of one segment in the task log: half of them its first, half its last
_BREATH = 50  # lines, after which others on the event loop have their turn


@dataclass
class DriverLog:
    """One submission's driver log. ``progress`` is the last progress report seen in it, as the script printed it.

    ``reports`` counts them; ``ranks`` are those of Ray Train by address and process: (world rank, rank in its pod).
    """

    tools: Tools
    api: RayJobs
    log: SegmentedLog
    offset: int = 0
    progress: Mapping[str, Any] = field(default_factory=dict)
    tail: tuple[str, ...] = ()
    reports: int = 0
    ranks: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    async def resume(self) -> None:
        """Go on where the archive ends."""
        self.offset = await self.log.cursor()
        if self.offset:
            data, start = await self.log.read_all(), await self.log.last_start()
            self._note(data)
            self.tools.say("Driver log: resuming at byte %d", self.offset)
            await self._say(start, data[start:], "again, for whoever followed before may not have come to it")

    async def pump(self, job: Job, *, final: bool = False) -> int:
        """Carry over all whole lines that are there now (with ``final`` also a last line without its end).

        Returns the bytes carried. Raises ApiUnreachable; nothing is lost then, the next call goes on.
        """
        carried = 0
        while block := await self.api.read_driver_log(job, self.offset, _BLOCK):
            whole = block if final or len(block) == _BLOCK else block[: block.rfind(b"\n") + 1]
            if len(block) == _BLOCK and b"\n" in block:
                whole = block[: block.rfind(b"\n") + 1]
            if not whole:
                break
            start = self.offset
            self.offset = await self.log.append(start, whole)
            shown = await asyncio.to_thread(self.tools.archive.masker, whole)
            await self._say(start, shown)
            self._note(shown)
            carried += len(whole)
            if len(block) < _BLOCK:
                break
        return carried

    async def _say(self, start: int, data: bytes, remark: str = "") -> None:
        """``data`` is masked: asterisks take no more and no fewer bytes."""
        shown = data.decode(errors="replace").splitlines()
        left = max(0, len(shown) - _MOST_LINES)
        half = _MOST_LINES // 2
        said = f" ({remark})" if remark else ""
        self.tools.say("Driver log, bytes %d to %d%s:", start, start + len(data), said)
        for number, line in enumerate([*shown[:half], *shown[-half:]] if left else shown, start=1):
            if left and number == half + 1:
                self.tools.say("... %d lines of these bytes stand in the archive only ...", left)
            self.tools.say("%s", line if RESULT not in line else f"{line[:_SHOWN]} ({len(line)} characters)")
            if number % _BREATH == 0:
                await asyncio.sleep(0)

    def _note(self, data: bytes) -> None:
        for line in data.splitlines():
            at = line.find(PROGRESS)
            if at >= 0:
                self._progress(line[at + len(PROGRESS) :])
            elif found := _RANK.search(line):
                who = (found["ip"].decode(errors="replace"), int(found["pid"]))
                self.ranks[who] = (int(found["rank"]), int(found["local"]))
        self.tail = (*self.tail, *data.decode(errors="replace").splitlines())[-_TAIL:]

    def _progress(self, text: bytes) -> None:
        try:
            report = json.loads(text)
        except ValueError:  # a user's line that only looks like a report
            return
        if isinstance(report, dict):
            self.progress = report
            self.reports += 1
