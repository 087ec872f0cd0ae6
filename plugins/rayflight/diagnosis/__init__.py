"""From a snapshot to findings and one diagnosis. Pure: no I/O; the earliest deepest fact is the cause."""
