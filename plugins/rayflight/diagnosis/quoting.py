"""How facts are quoted in findings. Pure text; decides nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rayflight.findings import Evidence
from rayflight.snapshot.model import Condition, Container, Event, Job, Pod, Snapshot

_LONGEST = 600  # characters of one quotation
_SHOWN = 4  # names in one sentence
_LINES = 10  # lines of a log that Ray itself puts into a message
_TAIL = "last available logs"  # Ray quotes the log's end behind these words
_ESCAPE = "\x1b"
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Ray's own bookkeeping, of its C++ and its Python parts: what it says about itself at these levels ended nothing.
ASIDE = re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+ [IW] \d+ \d+\]|\d{4}-\d\d-\d\d [\d:,]+\s+(INFO|WARNING) \w+\.py:\d+ --")


def plain(seen: Snapshot) -> Snapshot:
    """What was printed, without its colours; the end of a driver log that only Ray's message holds is a log, too."""
    ray = seen.ray
    told = {f"driver/{item.id}": item.message for item in (ray.jobs if ray else ()) if _TAIL in item.message}
    logs = {name: _colourless(text) for name, text in ({**told, **seen.logs}).items()}
    if ray and any(_ESCAPE in item.message for item in ray.jobs):
        ray = replace(ray, jobs=tuple(replace(item, message=_colourless(item.message)) for item in ray.jobs))
    same = ray is seen.ray and all(text is seen.logs.get(name) for name, text in logs.items())
    return seen if same else replace(seen, logs=logs, ray=ray)


def _colourless(text: str) -> str:
    return _COLOUR.sub("", text) if _ESCAPE in text else text


def clip(text: str, longest: int = _LONGEST) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}…"


def last_lines(text: str, lines: int = _LINES) -> str:
    """The last lines that say something; Ray's asides only where there is nothing else."""
    written = [line for line in text.splitlines() if line.strip()]
    return "\n".join(([line for line in written if not ASIDE.match(line)] or written)[-lines:])


def listed(names: Sequence[str]) -> str:
    """``a, b and 3 more``."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def pods_named(pods: Sequence[Pod]) -> str:
    """``pod x`` or ``2 pods (x, y)``."""
    names = [pod.name for pod in pods]
    return f"pod {names[0]}" if len(names) == 1 else f"{len(names)} pods ({listed(names)})"


def objects(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Pods as objects of a finding."""
    return tuple(f"pod/{pod.name}" for pod in pods)


def event(item: Event) -> Evidence:
    """An event, quoted."""
    return Evidence(object=f"event {item.reason} on {item.kind} {item.name}", text=clip(item.message), at=item.last_at)


def condition(name: str, item: Condition) -> Evidence:
    """A condition of the object called ``name``."""
    said = f"{item.type}={item.status} {item.reason}: {item.message}"
    return Evidence(object=name, text=clip(said), at=item.since)


def container(pod: Pod, item: Container) -> Evidence:
    """A container's present state, and how it last ended."""
    kind = "init container" if item.init else "container"
    said = " ".join(filter(None, (item.state, item.reason, item.message)))
    ending = item.terminated or item.last
    if ending:
        said += f"; last end: exit code {ending.exit_code} {ending.reason} {ending.message}, {item.restarts} restarts"
    at = ending.finished_at if ending else item.started_at
    return Evidence(object=f"{kind} {item.name} of pod {pod.name}", text=clip(said), at=at)


def line_of(found: re.Match[str]) -> str:
    """The whole line in which a pattern was found. (``.*`` around a pattern would make the search quadratic.)"""
    text = found.string
    start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
    return text[start : end if end >= 0 else None].strip()


def log(name: str, line: str) -> Evidence:
    """A line of a log."""
    return Evidence(object=f"log {name}", text=clip(line))


def job(item: Job) -> Evidence:
    """A submission's last words."""
    said = last_lines(item.message, _LINES + 1)
    return Evidence(object=f"submission {item.id}", text=said[-2000:], at=item.ended_at)


def earliest(evidence: Iterable[Evidence]) -> str | None:
    """The time of the first of them."""
    return min((item.at for item in evidence if item.at), default=None)
