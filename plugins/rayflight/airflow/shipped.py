"""Runs one function on a Ray cluster: sent there beside the function's source, so it knows the standard library only.

Imported on Airflow's side for ``to_json`` and ``returned``: both sides agree on what can be sent, and how it is marked.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FUNCTION, CALL = "function.py", "call.json"
MARK = "RAYFLIGHT_RESULT "
LIMIT = 256 * 1024  # bytes: XCom stands in Airflow's database, and the line in the driver log


class NotJson(TypeError):
    """Something that JSON would lose or change; the text says where it is."""


def to_json(value: Any, where: str) -> str:
    """As JSON that comes back the same, but for tuples. Raises NotJson."""
    _check(value, where)
    return json.dumps(value)


def _check(value: Any, where: str) -> None:
    if value is None or isinstance(value, (bool, int, float, str)):
        return
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check(item, f"{where}[{index}]")
        return
    if not isinstance(value, dict):
        kind = type(value)
        raise NotJson(f"{where} is a {kind.__module__}.{kind.__qualname__}, which JSON cannot hold")
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotJson(f"{where} has the key {key!r}, and keys of JSON are text")
        _check(item, f"{where}[{key!r}]")


def line(value: Any) -> str:
    """The result as the last line of the driver log. Raises NotJson, also for what is too large."""
    text = to_json(value, "result")
    if len(text.encode()) > LIMIT:
        raise NotJson(
            f"the result has {len(text.encode()):,} bytes of JSON and the limit is {LIMIT:,}: "
            "write it to storage and return where it is"
        )
    return f"{MARK}{_digest(text)} {text}"


def returned(log: bytes) -> Any:
    """The result out of a driver log. Raises LookupError without one, ValueError for one that was changed."""
    found = log.rfind(MARK.encode())
    if found < 0:
        raise LookupError("its log holds no result")
    digest, _, text = log[found + len(MARK) :].splitlines()[0].decode().partition(" ")
    if digest != _digest(text):
        raise ValueError("its log holds another text than was returned, as where something was masked")
    return json.loads(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(folder: Path) -> int:
    """Call the function. An exception shows the function's own frames and ends the job with 1."""
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - what is sent beside it can be imported
    call: Mapping[str, Any] = json.loads((folder / CALL).read_text())
    source = folder / FUNCTION
    # In __main__, so that Ray sends inner functions to its workers by value and not by a module's name.
    names = vars(sys.modules["__main__"])
    try:
        exec(compile(source.read_text(), str(source), "exec"), names)  # noqa: S102 - this is what it is for
        said = line(names[call["name"]](*call["args"], **call["kwargs"]))
    except Exception as error:  # noqa: BLE001 - whatever the function raises is shown, without the frame of this line
        own = error.__traceback__.tb_next if error.__traceback__ and not isinstance(error, NotJson) else None
        traceback.print_exception(type(error), error, own)
        return 1
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()  # its workers' lines would come between
    sys.stdout.flush()
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(__file__).parent))
