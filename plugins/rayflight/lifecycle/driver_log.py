"""Carries the driver log from the cluster into the archive and the task log, each byte once.

The archive's last segment is the cursor; the source is read by byte range. A segment is written first and said second,
so the archive is exact and the task log can repeat at most one segment after a kill (each block names its byte range).
"""

from __future__ import annotations

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
            self._note(await self.log.read_all())
            self.tools.say("Driver log: resuming at byte %d", self.offset)

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
            self._say(start, whole)
            carried += len(whole)
            if len(block) < _BLOCK:
                break
        return carried

    def _say(self, start: int, data: bytes) -> None:
        shown = self.tools.archive.masker(data)
        self.tools.say("Driver log, bytes %d to %d:", start, start + len(data))
        for line in shown.decode(errors="replace").splitlines():
            self.tools.say("%s", line if RESULT not in line else f"{line[:_SHOWN]} ({len(line)} characters)")
        self._note(shown)

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
