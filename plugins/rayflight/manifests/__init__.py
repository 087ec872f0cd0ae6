"""From a spec to the objects that Kubernetes stores. Pure: no I/O, no clock, no randomness."""
