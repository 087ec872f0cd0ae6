"""Addresses of the testbed and the one bridge, route and iptables chain that it makes itself.

Pods get theirs from the CNI bridge plugin; services come from kube-proxy. Nothing is bound to an address that is
reachable from outside this machine.
"""

import ipaddress
import json
import subprocess
from pathlib import Path

from testbed import host
from testbed.controlplane import SERVICE_RANGE
from testbed.errors import TestbedError

BRIDGE = f"{host.LINK_PREFIX}0"
HOST_RANGE = "10.99.0.0/24"
POD_RANGE = "10.98.0.0/16"
API_ADDRESS = "10.99.0.1"
API_PORT = 6443
DNS_ADDRESS = "10.99.0.53"
CLUSTER_DOMAIN = "cluster.local"


def node_address(index: int) -> str:
    return f"10.99.0.{10 + index}"


def pod_subnet(index: int) -> str:
    return f"10.98.{index}.0/24"


def require_free() -> None:
    """Refuse address ranges and ports that this machine uses for something else."""
    taken = [ipaddress.ip_network(row["dst"]) for row in _routes() if row["dst"] != "default"]
    for mine in map(ipaddress.ip_network, (HOST_RANGE, POD_RANGE, SERVICE_RANGE)):
        if any(mine.overlaps(other) for other in taken):
            raise TestbedError(f"this machine already has a route into {mine}, which the testbed uses for itself")
    for port, table in ((API_PORT, "tcp"), (53, "udp")):
        if _listens_everywhere(port, table):
            raise TestbedError(
                f"something listens on {table} port {port} on all addresses, which the testbed needs too"
            )


def set_up(nodes: int) -> None:
    """Bridge, addresses, forwarding, and accept rules for hosts whose policy is to drop. Safe to repeat."""
    if not _has_bridge():
        _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("link", "set", BRIDGE, "up")
    for address in (API_ADDRESS, DNS_ADDRESS, *(node_address(i) for i in range(1, nodes + 1))):
        _ip("address", "replace", f"{address}/24", "dev", BRIDGE)
    # Processes of the host reach cluster IPs too: without a route the kernel refuses before NAT sees the packet.
    _ip("route", "replace", SERVICE_RANGE, "dev", BRIDGE)
    host.set_sysctl("net/ipv4/ip_forward", "1")
    host.set_sysctl("net/bridge/bridge-nf-call-iptables", "1")
    _iptables("filter", ["-i", f"{host.LINK_PREFIX}+", "-j", "ACCEPT"], ["-d", POD_RANGE, "-j", "ACCEPT"])
    _jump("filter", "INPUT", "FORWARD")
    _iptables("nat", ["-s", POD_RANGE, "!", "-o", f"{host.LINK_PREFIX}+", "-j", "MASQUERADE"])
    _jump("nat", "POSTROUTING")


def _iptables(table: str, *rules: list[str]) -> None:
    lines = [f"*{table}", f":{host.CHAIN} - [0:0]", *(f"-A {host.CHAIN} {' '.join(rule)}" for rule in rules), "COMMIT"]
    _run(["iptables-restore", "--noflush"], stdin="\n".join(lines) + "\n")


def _jump(table: str, *chains: str) -> None:
    for chain in chains:
        rule = [chain, "-j", host.CHAIN]
        if subprocess.run(["iptables", "-t", table, "-C", *rule], capture_output=True).returncode != 0:
            _run(["iptables", "-t", table, "-I", *rule])


def _listens_everywhere(port: int, table: str) -> bool:
    """A listener on one other address, such as a resolver on 127.0.0.53, does not disturb."""
    wanted = {f"{'0' * 8}:{port:04X}", f"{'0' * 32}:{port:04X}"}
    states = {"tcp": "0A", "udp": "07"}
    rows = (row.split() for name in (table, f"{table}6") for row in _lines(f"/proc/net/{name}"))
    return any(row[1] in wanted and row[3] == states[table] for row in rows)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()[1:]
    except FileNotFoundError:
        return []  # no IPv6 here


def _has_bridge() -> bool:
    return subprocess.run(["ip", "link", "show", BRIDGE], capture_output=True).returncode == 0


def _routes() -> list[dict[str, str]]:
    done = subprocess.run(["ip", "-json", "-4", "route"], capture_output=True, text=True, check=True)
    return [row for row in json.loads(done.stdout or "[]") if not row.get("dev", "").startswith(host.LINK_PREFIX)]


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _run(command: list[str], stdin: str | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, input=stdin)
    if done.returncode != 0:
        raise TestbedError(f"`{' '.join(command)}` failed: {done.stderr.strip()[:300]}")
