"""A worker setup hook: lets a process be asked for its stack by a signal, where its container may not ptrace.

Named in a runtime_env as ``rayflight_probe.hook.register``. Ray ends a worker whose hook fails: this one does not.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from pathlib import Path

SIGNAL = signal.SIGUSR2


def path_of(pid: int) -> Path:
    """Where that process writes its stacks; the file's being there says that it listens."""
    # Not TMPDIR: a training may have another one than who looks at it.
    return Path(f"/tmp/rayflight-stacks-{os.getuid()}-{pid}.txt")  # noqa: S108


def register() -> None:
    """From now on the signal appends the stacks of all threads to this process's file, and disturbs nothing else."""
    try:
        if signal.getsignal(SIGNAL) is not signal.SIG_DFL:
            return  # the training uses it for something of its own
        path = path_of(os.getpid())
        path.unlink(missing_ok=True)  # of an earlier process of that number
        # Kept open for the life of the process: faulthandler writes to its descriptor, from within the handler.
        faulthandler.register(SIGNAL, file=path.open("x"), all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError) as error:
        sys.stderr.write(f"Rayflight: no stacks by signal in this process: {error}\n")
