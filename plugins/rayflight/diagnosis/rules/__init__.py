"""One rule a module; rules do not know each other."""
