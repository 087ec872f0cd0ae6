"""What a measurement was made on."""

import os
import platform


def machine() -> str:
    """One line for the head of a table."""
    load = os.getloadavg()[0]
    return f"{platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f}, Python {platform.python_version()}"
