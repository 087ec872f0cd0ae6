"""Moves this process into a network of its own that has loopback only. Linux; needs no root where users may do so.

Ray's GCS listens on all interfaces whatever address it is given: in here these are none that anybody else reaches.
``python -m rayflight.keeper.fence`` only tries, and says why not.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def fence() -> None:
    """From now on this process and its children have the new network. Raises OSError where the system refuses.

    Call it before any thread is started: the kernel moves only a process of one thread.
    """
    if not sys.platform.startswith("linux"):
        raise OSError(f"{sys.platform} has no network namespaces")
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)} (user namespaces are switched off?)")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")  # the same user inside: files keep their owner
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _raise_loopback()


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel to send this process a signal when its parent ends, however that happens. Linux only."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_DIE_WITH_PARENT, signal_number, 0, 0, 0)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(any_socket, _GET_FLAGS, asked))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def main() -> int:
    """0 when a fence is possible here; else 1 and one line that says why not."""
    try:
        fence()
    except OSError as error:
        sys.stdout.write(f"{error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
