"""A drill: the last rank skips a collective, so that it waits in the next one while the others wait in this one."""

from __future__ import annotations

import sys

from hang_training import Rank, fly


class HastyRank(Rank):
    """Leaves the evaluation out, once."""

    def evaluate(self) -> None:
        """The classic: a collective under a condition that is not the same on all ranks."""
        if not self.bad:
            super().evaluate()


if __name__ == "__main__":
    sys.exit(fly(HastyRank, __doc__))
