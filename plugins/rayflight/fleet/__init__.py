"""What the devices of a pool did over time: one small document per verification and node. Pure: no I/O, no clock."""
