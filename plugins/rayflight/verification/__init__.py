"""From (spec, snapshot) to checks. Pure: no I/O, no clock; what could not be observed is unknown, never passed."""
