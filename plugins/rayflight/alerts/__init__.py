"""What whoever is on duty reads: one message per fault, and when it is good again. Pure: no I/O, no clock.

Says what failed, where, since when and what to do next; decides whether it was said already (fingerprint = cause +
node). Where states are kept and how messages travel is others' business: it gets a ``Store`` and gives back text.
"""

from rayflight.alerts.compose import deadline_missed, healed, problem
from rayflight.alerts.deduplication import State, Store, Success, claim, recover, unsaid
from rayflight.alerts.message import Alert, Kind, Link, Run, Where

__all__ = [
    "Alert",
    "Kind",
    "Link",
    "Run",
    "State",
    "Store",
    "Success",
    "Where",
    "claim",
    "deadline_missed",
    "healed",
    "problem",
    "recover",
    "unsaid",
]
