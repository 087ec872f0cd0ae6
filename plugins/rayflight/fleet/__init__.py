"""What the devices of a pool did over time: one small document per verification and node. Pure: no I/O, no clock."""

from rayflight.fleet.history import LAST, Health, earlier, history, standing
from rayflight.fleet.records import Occasion, records

__all__ = ["LAST", "Health", "Occasion", "earlier", "history", "records", "standing"]
