"""What importing Rayflight costs a DAG file over `import airflow.sdk`: median of 10 fresh interpreters.

The statements are taken from the DAG files of this repository, so the number follows what they really need.
Exit code 1 when the median is above the budget.
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys

from dev.airflow_home import ROOT
from dev.machine import machine

ROUNDS = 10
BUDGET_MS = 150
_PROGRAM = """
import sys, time
import airflow.sdk
before, begin = set(sys.modules), time.perf_counter()
{statements}
seconds = time.perf_counter() - begin
print(seconds, len(set(sys.modules) - before))
"""


def main() -> int:
    """Measure, print, judge."""
    statements = needed_imports()
    print(f"on {machine()}")
    print("over `import airflow.sdk`:", *statements, sep="\n  ")
    program = _PROGRAM.format(statements="\n".join(statements))
    _measure(program)  # fills the page cache and the bytecode cache
    rounds = [_measure(program) for _ in range(ROUNDS)]
    milliseconds = sorted(seconds * 1000 for seconds, _ in rounds)
    median = statistics.median(milliseconds)
    print(
        f"min {milliseconds[0]:.0f} ms, median {median:.0f} ms, max {milliseconds[-1]:.0f} ms, {rounds[0][1]} modules"
    )
    for file in sorted((ROOT / "dags").glob("*.py")):
        runs = [_measure(_PROGRAM.format(statements=f"import runpy; runpy.run_path({str(file)!r})")) for _ in range(3)]
        print(f"for comparison, all of dags/{file.name}: {statistics.median(s * 1000 for s, _ in runs):.0f} ms")
    print(f"budget {BUDGET_MS} ms: {'kept' if median <= BUDGET_MS else 'EXCEEDED'}")
    return 0 if median <= BUDGET_MS else 1


def needed_imports() -> list[str]:
    """Every import of Rayflight that stands in a DAG file, and everything its Airflow layer offers."""
    statements = {"from rayflight.airflow import *"}
    for file in sorted((ROOT / "dags").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(), str(file))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.split(".")[0] == "rayflight":
                statements.add(ast.unparse(node))
    return sorted(statements)


def _measure(program: str) -> tuple[float, int]:
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    seconds, modules = output.split()[-2:]
    return float(seconds), int(modules)


if __name__ == "__main__":
    sys.exit(main())
