#!/bin/sh
# Proves the real path on a machine with an NVIDIA GPU and PyTorch, in under four minutes: driver facts, checked copies,
# products and collectives, and the probe as a Ray job where Ray is installed. Prints what was measured beside the
# device's nominal figures. Exit codes: 0 proven, 1 something is wrong, 77 nothing to prove it on.
#   PYTHON=/path/to/python tests/gpu/run.sh
set -eu
cd "$(dirname "$0")/../.."
PYTHON="${PYTHON:-python3}"
export PYTHONPATH="plugins:.${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
exec timeout --kill-after=10 240 "$PYTHON" tests/gpu/prove.py
