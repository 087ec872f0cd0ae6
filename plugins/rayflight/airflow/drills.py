"""What a DAG of failure drills needs: the table, the spoilt shape, the jobs, the verdicts and the judgement.

Breaks nothing itself: a drill's fault is in its shape or its job, or is made from outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rayflight.errors import InvalidSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

VERDICT = "verdict"  # XCom key of what a failed task said
TABLE = "drills.yaml"
_FROM_OUTSIDE = {"before", "provoke"}

Entry = Mapping[str, Any]


def read(folder: Path) -> dict[str, Entry]:
    """The table in that folder: drill by name."""
    table: dict[str, Entry] = yaml.safe_load((folder / TABLE).read_text())
    return table


def by_themselves(table: Mapping[str, Entry]) -> list[str]:
    """Drills whose fault is in what is asked for: a form can offer them."""
    return [name for name, drill in table.items() if not _FROM_OUTSIDE & set(drill)]


def spoilt(table: Mapping[str, Entry], names: Sequence[str], *, shape: str, image: str | None) -> dict[str, Any]:
    """The shape with the fault of the first drill in it, and one worker pod. ``group`` means its first worker group."""
    from rayflight.specs import load_cluster
    from rayflight.specs.merge import merge

    changes = dict(_named(table, names)[0].get("shape", {}))
    group = {"replicas": 1, **changes.pop("group", {})}
    spec = load_cluster(shape).to_dict()
    spec["groups"] = [merge(spec["groups"][0], group)]
    return merge({**spec, **({"image": image} if image else {})}, changes)


def submissions(table: Mapping[str, Entry], names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """One job per drill, each with the scripts of that folder."""
    idle = {"entrypoint": "python3 work.py"}
    return [{"working_dir": str(folder), **drill.get("job", idle)} for drill in _named(table, names)]


def note_verdict(context: Context) -> None:
    """A callback of failures and retries: leaves what the task raised as an XCom, for who judges."""
    error = context.get("exception")
    cause = getattr(getattr(error, "diagnosis", None), "cause", None)
    said: dict[str, Any] = {"error": type(error).__name__, "text": str(error), "at": datetime.now(UTC).isoformat()}
    if cause is not None:
        said |= {"id": cause.id, "decision": str(cause.decision), "retry_after": cause.retry_after}
    context["ti"].xcom_push(key=VERDICT, value=said)


def judge(
    table: Mapping[str, Entry], names: Sequence[str], *, early: Sequence[Any], trained: Sequence[Any]
) -> list[str]:
    """What is wrong, in words. ``early``: verdicts of the tasks before the trainings; ``trained``: of each training."""
    before = next((said for said in early if said), None)
    wrong = []
    for name, drill, said in zip(names, _named(table, names), trained, strict=True):
        verdict = said or before or {}
        named = verdict.get("id") or verdict.get("error")
        wanted = drill.get("cause", [None])
        if named not in wanted:
            expected = " or ".join(str(cause or "no failure") for cause in wanted)
            wrong.append(f"drill {name}: expected {expected}, got {named or 'no failure'}. {verdict.get('text', '')}")
    return wrong


def _named(table: Mapping[str, Entry], names: Sequence[str]) -> list[Entry]:
    unknown = [name for name in names if name not in table]
    if unknown or not names:
        raise InvalidSpec(
            "No such drill:",
            which=", ".join(unknown) or "none is named",
            next_step=f"name one of {', '.join(table)}",
        )
    return [table[name] for name in names]
