"""Ends one local cluster with everything that came from it: ``python -m rayflight.keeper.ender FOLDER``.

Processes first, then Ray's folder, the record last: who is killed in between leaves a record that says what is to be
ended, and the next one goes on. Does nothing to what does not carry the cluster's mark.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
from pathlib import Path

from rayflight.keeper import processes

RECORD, LOCK = "cluster.json", "ender.lock"


def main(arguments: list[str] | None = None) -> int:
    """0 when nothing is left, or another ender is at it."""
    folder = Path((arguments or sys.argv[1:])[0])
    try:
        lock = (folder / LOCK).open("ab")
        record = json.loads((folder / RECORD).read_text())
    except FileNotFoundError:
        return 0  # it is gone already
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        return end(folder, record)


def end(folder: Path, record: dict[str, object]) -> int:
    """1 when processes live on in spite of SIGKILL; the record then stays and names them."""
    left = processes.end(str(record["uid"]), float(str(record["grace"])))
    if left:
        sys.stderr.write(f"processes {left} do not end even on SIGKILL\n")
        return 1
    shutil.rmtree(str(record["run_folder"]), ignore_errors=True)
    gone = folder.with_name(f".gone-{record['uid']}")
    folder.rename(gone)  # at once: nobody reads half a record
    shutil.rmtree(gone, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
