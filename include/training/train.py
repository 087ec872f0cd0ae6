"""What this Ray can train: ``ddp.py`` where PyTorch is installed, else ``ddp_numpy.py``, with the same command line."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

SCRIPT = "ddp.py" if importlib.util.find_spec("torch") else "ddp_numpy.py"

if __name__ == "__main__":
    print(f"training with {SCRIPT}", flush=True)
    os.execv(sys.executable, [sys.executable, str(Path(__file__).with_name(SCRIPT)), *sys.argv[1:]])  # noqa: S606
