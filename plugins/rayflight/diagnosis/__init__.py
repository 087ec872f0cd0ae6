"""From a snapshot to findings and one diagnosis. Pure: no I/O; the earliest deepest fact is the cause."""

from rayflight.diagnosis.judge import decisive, diagnose, findings

__all__ = ["decisive", "diagnose", "findings"]
