#!/bin/sh
# What must be true before `make demo` and `make up` install anything: one clear sentence for each thing that is not.
# Then the pinned uv and the packages of the lock (`make venv`), then dev/quickstart.py. Plain sh: nothing is there yet.
set -u
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-python3}

refuse() {
  echo "$1" >&2
  exit 1
}

[ "$(uname -s)" = Linux ] || [ "$(uname -s)" = Darwin ] ||
  refuse "Linux or macOS is needed, this is $(uname -s). Next: use WSL2 on Windows."
[ -w . ] || refuse "Cannot write to $(pwd). Next: use a clone in a folder that you may write to."
command -v "$PYTHON" >/dev/null 2>&1 ||
  refuse "There is no $PYTHON on PATH. Next: install Python 3.11, 3.12 or 3.13, or name one with PYTHON=/path/to/python."
"$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
  refuse "$("$PYTHON" -V 2>&1) cannot run Airflow 3.3 with Ray. Next: name a Python 3.11, 3.12 or 3.13 with PYTHON=/path/to/python."
if [ ! -e .venv/.made ]; then
  "$PYTHON" -c 'import ensurepip' 2>/dev/null ||
    refuse "$PYTHON cannot make virtual environments. Next: install python3-venv, or name another Python with PYTHON=..."
  free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1024) }')
  [ "$free" -ge 4096 ] || refuse "Only $free MiB are free on the disk of $(pwd), 4096 MiB are needed. Next: make room."
fi

log=.tools/install.log
mkdir -p .tools || refuse "Cannot write to $(pwd). Next: use a clone in a folder that you may write to."
if [ ! -e .venv/.made ] || [ requirements.lock -nt .venv/.made ] || [ pyproject.toml -nt .venv/.made ]; then
  echo "installing Airflow, Ray and what they need into $(pwd)/.venv (once, about 1.5 GiB) ..."
  if ! "${MAKE:-make}" --no-print-directory venv PYTHON="$PYTHON" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    if grep -qiE 'no space left|disk quota' "$log"; then
      refuse "The disk of $(pwd) is full. Next: make room and start again."
    elif grep -qiE 'connect|resolve|network|timed out|temporary failure|dns|retrieve|no matching distribution' "$log"; then
      refuse "The packages cannot be downloaded. Next: see whether this machine reaches its package index (PIP_INDEX_URL, UV_INDEX_URL, proxy), and start again."
    fi
    refuse "The installation failed; all of it stands in $(pwd)/$log."
  fi
fi
exec .venv/bin/python -m dev.quickstart "$@"
