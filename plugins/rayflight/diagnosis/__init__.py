"""From a snapshot to findings and one diagnosis. Pure: no I/O; the earliest deepest fact is the cause."""

from rayflight.diagnosis.judge import decisive, diagnose, findings
from rayflight.diagnosis.moments import diagnose_moments

__all__ = ["decisive", "diagnose", "diagnose_moments", "findings"]
