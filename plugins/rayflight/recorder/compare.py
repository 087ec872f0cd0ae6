"""The difference between two moments of one cluster, in words. Pure: what could not be read has not changed."""

from __future__ import annotations

from collections.abc import Iterator

from rayflight.recorder.change import EVENT, GAP, Change, Key
from rayflight.recorder.facts import CLAIM, DEMAND, NODE, RELIST, Facts, facts, unread
from rayflight.snapshot.model import Snapshot

_ENDS_SILENTLY = (EVENT,)  # the API forgets them after an hour


def changes(before: Snapshot | None, after: Snapshot) -> tuple[Change, ...]:
    """What happened between the two, in order of time. Without ``before``: everything appears."""
    return compare(known(before) if before else {}, after)[1]


def known(seen: Snapshot) -> Facts:
    """The facts of one moment by itself."""
    return facts(seen)


def compare(before: Facts, seen: Snapshot) -> tuple[Facts, tuple[Change, ...]]:
    """What is known after ``seen``, and what changed."""
    nodes = {key.name for key in before if key.kind == NODE}
    claims = {key.name for key in before if key.kind == CLAIM}
    silent = unread(seen)
    carried = {key: fact for key, fact in before.items() if key.kind in silent}
    now = carried | facts(seen, nodes=nodes, claims=claims)
    found = [*_new(before, now, seen.taken_at), *_ended(before, now, seen.taken_at)]
    return now, tuple(sorted(found, key=lambda item: (item.when, item.key)))


def _new(before: Facts, now: Facts, at: str) -> Iterator[Change]:
    born = _born_with(before, now)
    inborn = {key for keys in born.values() for key in keys}
    for key, fact in now.items():
        old = before.get(key)
        if key in inborn or (old is not None and old.value == fact.value):
            continue
        more = [f"{item.aspect} {now[item].value}" for item in born.get(key, ())]
        yield Change(
            at=at,
            key=key._replace(name=fact.name) if fact.name else key,
            before=old.value if old else None,
            after=fact.value,
            since=fact.since if old or fact.born == "" else fact.born,
            detail="; ".join(part for part in (fact.detail, *more) if part),
        ).clipped()


def _born_with(before: Facts, now: Facts) -> dict[Key, list[Key]]:
    """What a new thing has from the start, without a time of its own, is told in the line of its birth."""
    born: dict[Key, list[Key]] = {}
    for key, fact in now.items():
        thing = key._replace(aspect="")
        if key.aspect and fact.since is None and thing in now and thing not in before:
            born.setdefault(thing, []).append(key)
    return born


def _ended(before: Facts, now: Facts, at: str) -> Iterator[Change]:
    """What is gone with its thing needs no line of its own."""
    for key, fact in before.items():
        if key in now or key.kind in _ENDS_SILENTLY or key.aspect == RELIST or _went_along(key, before, now):
            continue
        yield Change(at=at, key=key, before=fact.value, after=None, detail=_farewell(key)).clipped()


def _went_along(key: Key, before: Facts, now: Facts) -> bool:
    thing = key._replace(aspect="")
    return bool(key.aspect) and thing in before and thing not in now


def _farewell(key: Key) -> str:
    if key.kind == GAP:
        return f"{key.name} can be read again"
    return "everything that was asked for has its place" if key.kind == DEMAND else ""
