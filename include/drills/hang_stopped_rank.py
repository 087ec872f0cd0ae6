"""A drill: the last rank's process is stopped (SIGSTOP), as by a debugger that was left attached or a frozen cgroup."""

from __future__ import annotations

import os
import signal
import sys
import time

from hang_training import Rank, fly


class StoppedRank(Rank):
    """Stops itself before it evaluates."""

    def evaluate(self) -> None:
        """A stopped process answers nobody; only SIGCONT or SIGKILL reaches it."""
        if self.bad:
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(1)  # another thread takes the signal: this one must not come to the barrier meanwhile
        super().evaluate()


if __name__ == "__main__":
    sys.exit(fly(StoppedRank, __doc__))
