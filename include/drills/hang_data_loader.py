"""A drill: the last rank stops in its data loader, the others wait for it in all_reduce."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from queue import Queue

from hang_training import STEPS, WRONG_AT, Rank, fly


class DataLoader:
    """Reads ahead in a thread, as data loaders do; the thread of a ``broken`` one stops in the middle."""

    def __init__(self, *, broken: bool, stall_seconds: float) -> None:
        self.broken, self.stall_seconds = broken, stall_seconds
        self.read: Queue[float] = Queue()
        threading.Thread(target=self._read_ahead, name="read-ahead", daemon=True).start()

    def _read_ahead(self) -> None:
        for number in range(1, STEPS + 1):
            if self.broken and number == WRONG_AT:
                threading.Event().wait(self.stall_seconds)
            self.read.put(1.0)

    def __iter__(self) -> Iterator[float]:
        return self

    def __next__(self) -> float:
        return self.read.get()


class StarvedRank(Rank):
    """Gets its batches from a loader that stops on the last rank."""

    def batches(self) -> Iterator[float]:
        """Wait for the loader, as every training does."""
        loader = DataLoader(broken=self.number == self.size - 1, stall_seconds=self.stall_seconds)
        for _ in range(STEPS):
            yield next(loader)


if __name__ == "__main__":
    sys.exit(fly(StarvedRank, __doc__))
