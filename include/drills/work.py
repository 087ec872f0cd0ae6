"""What drills fly when the job is not what is broken: one actor per GPU that works until it is told to stop or dies."""

from __future__ import annotations

import argparse
import json
import time

import ray


@ray.remote(num_gpus=1, num_cpus=0, max_restarts=0)
class Rank:
    """Stands for one rank of a training."""

    def step(self) -> int:
        """A tenth of a second of work."""
        time.sleep(0.1)
        return 1


def main() -> None:
    """Steps of all ranks together, one a second; the end of any rank ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--patient", action="store_true", help="wait for a rank that was lost to come back, for ever")
    options = parser.parse_args()
    ray.init()
    again = {"max_restarts": -1, "max_task_retries": -1} if options.patient else {}
    ranks = [Rank.options(**again).remote() for _ in range(options.ranks)]
    for epoch in range(1, options.seconds + 1):
        ray.get([rank.step.remote() for rank in ranks])
        print("RAYFLIGHT_PROGRESS", json.dumps({"epoch": epoch, "of": options.seconds}), flush=True)
        time.sleep(0.9)


if __name__ == "__main__":
    main()
