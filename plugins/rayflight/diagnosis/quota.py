"""What Kueue says of a pod set that got no flavor, as arithmetic: "never can fit" is told from "not now". Pure text.

A pod set takes one flavor of each resource group. It can never fit when every flavor of one of its groups refuses it
for good; one flavor whose quota only others hold is enough to wait for. Kueue goes on with the next flavor in its next
attempt, so a message need not speak of all of them: what is not spoken of proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rayflight.snapshot.surroundings import FlavorQuota

# Kueue's flavorassigner.go: Assignment.Message joins pod sets by "; " and their reasons by ", ". What is above the
# maximum was worded otherwise before v0.14.2 (`request > maximum capacity`) and v0.10 (`in ClusterQueue`, no numbers).
_POD_SET = re.compile(r"couldn't assign flavors to pod set (?P<name>[^\s:]+): ")
_REASON = re.compile(
    r"insufficient quota for (?P<above>\S+) in flavor (?P<above_flavor>[^\s,;]+), "
    r"previously considered podsets requests \((?P<before>[^)]*)\) \+ current podset request \((?P<asked>[^)]*)\) "
    r"> maximum capacity \((?P<capacity>[^)]*)\)"
    r"|insufficient quota for (?P<big>\S+) in flavor (?P<big_flavor>[^\s,;]+)"
    r"(?:, request > maximum capacity \((?P<big_asked>\S+) > (?P<big_capacity>[^)]*)\)| in ClusterQueue)"
    r"|insufficient unused quota (?:in cohort )?for (?P<short>\S+) in flavor (?P<short_flavor>[^\s,;]+), "
    r"(?P<needed>\S+) more needed"
    r"|resource (?P<unknown>\S+) unavailable in ClusterQueue"
    r"|untolerated taint .*? in flavor (?P<tainted>[^\s,;]+)"
    r"|flavor (?P<unmatched>[^\s,;]+) doesn't match node affinity"
)


class Why(StrEnum):
    """Why a flavor does not take a pod set."""

    CAPACITY = "capacity"  # it asks for more than the flavor ever has
    UNUSED = "unused"  # others hold what it needs
    UNKNOWN = "unknown"  # no resource group covers the resource
    PLACE = "place"  # the flavor's nodes are none for these pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One flavor's (or, for UNKNOWN, the ClusterQueue's) answer to one pod set."""

    pod_set: str
    why: Why
    flavor: str = ""
    resource: str = ""
    amount: str = ""  # UNUSED: how much more is needed; CAPACITY: what is asked for in all
    capacity: str = ""


def refusals(message: str) -> tuple[Refusal, ...]:
    """All reasons of a message of Kueue's scheduler; none where it speaks of something else."""
    return tuple(_refusals(message))


def why_never(found: Sequence[Refusal], quotas: Iterable[FlavorQuota]) -> Why | None:
    """Why it can never fit as it is, or None where it can or nothing is proven.

    Without the ClusterQueue's quotas the flavors of the message count as all that there are.
    """
    groups = {item.flavor: item.group for item in quotas}
    for pod_set in dict.fromkeys(item.pod_set for item in found):
        told = [item for item in found if item.pod_set == pod_set]
        if any(item.why is Why.UNKNOWN for item in told):
            return Why.UNKNOWN
        for group in {groups.get(item.flavor, 0) for item in told}:
            whys = _by_flavor([item for item in told if groups.get(item.flavor, 0) == group])
            every = {flavor for flavor, number in groups.items() if number == group}
            if every <= set(whys) and all(each != {Why.UNUSED} for each in whys.values()):
                return Why.CAPACITY if any(Why.CAPACITY in each for each in whys.values()) else Why.PLACE
    return None


def _by_flavor(told: Iterable[Refusal]) -> Mapping[str, set[Why]]:
    """A flavor that lacks one resource for good is of no use, whatever else it could still get."""
    found: dict[str, set[Why]] = {}
    for item in told:
        found.setdefault(item.flavor, set()).add(item.why)
    return found


def _refusals(message: str) -> Iterator[Refusal]:
    starts = list(_POD_SET.finditer(message))
    ends = [*(match.start() for match in starts), len(message)][1:]
    for start, end in zip(starts, ends, strict=True):
        for match in _REASON.finditer(message, start.end(), end):
            yield _refusal(start["name"], match)


def _refusal(pod_set: str, match: re.Match[str]) -> Refusal:
    if match["above"]:
        before = "" if match["before"] in ("", "0") else f"{match['before']} + "
        return Refusal(
            pod_set=pod_set,
            why=Why.CAPACITY,
            flavor=match["above_flavor"],
            resource=match["above"],
            amount=f"{before}{match['asked']}",
            capacity=match["capacity"],
        )
    if match["big"]:
        return Refusal(
            pod_set=pod_set,
            why=Why.CAPACITY,
            flavor=match["big_flavor"],
            resource=match["big"],
            amount=match["big_asked"] or "",
            capacity=match["big_capacity"] or "",
        )
    if match["short"]:
        flavor, resource, amount = match["short_flavor"], match["short"], match["needed"]
        return Refusal(pod_set=pod_set, why=Why.UNUSED, flavor=flavor, resource=resource, amount=amount)
    if match["unknown"]:
        return Refusal(pod_set=pod_set, why=Why.UNKNOWN, resource=match["unknown"])
    return Refusal(pod_set=pod_set, why=Why.PLACE, flavor=match["tainted"] or match["unmatched"])
