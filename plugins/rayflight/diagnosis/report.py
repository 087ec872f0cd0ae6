"""A diagnosis for people (Markdown) and for machines (JSON of a fixed schema). Pure: text in, text out.

The same report stands in the archive, is printed by ``rayflight diagnose`` and feeds alerts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayflight.diagnosis.timeline import Entry, timeline
from rayflight.findings import Diagnosis, Evidence, Finding
from rayflight.snapshot.model import Snapshot

SCHEMA = 1


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The schema that ``rayflight diagnose --json`` promises: no key of it is ever absent."""
    return {
        "schema": SCHEMA,
        "verdict": diagnosis.verdict,
        "cause": _finding(diagnosis.cause) if diagnosis.cause else None,
        "consequences": [
            _finding(item) | {"consequence_of": list(item.consequence_of)} for item in diagnosis.consequences
        ],
        "gaps": list(diagnosis.gaps),
        "facts": list(diagnosis.facts),
    }


def _finding(item: Finding) -> dict[str, Any]:
    return {
        "id": item.id,
        "title": item.title,
        "layer": str(item.layer),
        "summary": item.summary,
        "objects": list(item.objects),
        "since": item.since,
        "evidence": [{"object": it.object, "at": it.at, "text": it.text} for it in item.evidence],
        "next_step": item.next_step,
        "decision": str(item.decision),
        "retry_after": item.retry_after,
    }


def headline(diagnosis: Diagnosis) -> str:
    """The verdict in one line."""
    if diagnosis.cause:
        return f"{diagnosis.cause.title} [{diagnosis.cause.layer}, {diagnosis.cause.id}]"
    return "Nothing is wrong" if diagnosis.verdict == "healthy" else "The cause is unknown"


def clock(at: str | None) -> str:
    """The time of day of a moment, as a timeline shows it."""
    return at[11:19] if at else ""


def markdown(
    diagnosis: Diagnosis,
    moments: Sequence[Snapshot],
    *,
    links: Mapping[str, str] | None = None,
    told: Sequence[Entry] = (),
) -> str:
    """The full report: cause, two-column timeline, evidence, next steps, consequences, gaps, links.

    ``told`` is what a flight recorder kept; without it the timeline is what the moments themselves still show.
    """
    entries = told or timeline(moments, diagnosis)
    return "\n".join(_markdown(diagnosis, moments, links or {}, entries)) + "\n"


def _markdown(
    diagnosis: Diagnosis, moments: Sequence[Snapshot], links: Mapping[str, str], entries: Sequence[Entry]
) -> Iterator[str]:
    seen = moments[-1] if moments else None
    yield f"# {headline(diagnosis)}"
    if seen:
        yield f"\nRayCluster `{seen.namespace}/{seen.name}`, seen at {seen.taken_at}."
    cause = diagnosis.cause
    if cause:
        yield f"\n{cause.summary}"
        yield f"\n**Next:** {cause.next_step}  \n**Decision:** {decision(cause)}"
    yield from _list("What was seen", diagnosis.facts)
    yield from _table(entries)
    if cause:
        yield from _list("Evidence", [quoted(item) for item in cause.evidence])
    yield from _list("Consequences and side findings", [followed(item) for item in diagnosis.consequences])
    yield from _list("What could not be read", diagnosis.gaps)
    yield from _list("Links", [f"[{name}]({url})" for name, url in links.items()])


def decision(cause: Finding) -> str:
    """What Airflow is told, in words."""
    after = f" {cause.retry_after:g} s" if cause.retry_after is not None else ""
    return f"{str(cause.decision).replace('_', ' ')}{after}"


def quoted(item: Evidence) -> str:
    """One piece of evidence in one line."""
    return f"{item.object}{f' at {item.at}' if item.at else ''}: {' '.join(item.text.split())}"


def followed(item: Finding) -> str:
    """A consequence in one line, with what it follows from."""
    after = f" (follows from {', '.join(item.consequence_of)})" if item.consequence_of else ""
    return f"{item.id}{after}: {item.summary}"


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"\n## {title}\n"
        yield from (f"* {' '.join(line.split())}" for line in lines)


def _table(entries: Sequence[Entry]) -> Iterator[str]:
    if entries:
        yield "\n## Timeline\n\n| UTC | Kubernetes | Ray |\n|---|---|---|"
        for item in entries:
            text = item.text.replace("|", "\\|")
            left, right = (text, "") if item.side == "kubernetes" else ("", text)
            yield f"| {clock(item.at)} | {left} | {right} |"
