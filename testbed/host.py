"""The host as the testbed finds and leaves it: sysctls, iptables chains, links, mounts, cgroups, folders.

`remember` is called before anything is touched; `restore` undoes what is ours and nothing else; `leftovers` looks at
the host itself, not at records, and says what is still there.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from testbed.errors import TestbedError
from testbed.process import wait_until

CHAIN = "RAYFLIGHT-TESTBED"
CGROUP = "rayflight-testbed"
LINK_PREFIX = "rft"
# In cgroup v1 a group weighs as much as one single process beside it (1024): all pods of three nodes together would get
# the time of one process of a busy host.
_CPU_SHARES = "16384"
# Set by the testbed, by kubelet (vm.*, kernel.*) or by the CNI bridge plugin.
SYSCTLS = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/accept_redirects",  # the kernel changes it together with ip_forward
    "net/ipv4/conf/all/route_localnet",
    "net/bridge/bridge-nf-call-iptables",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# Folders whose path is a constant in kubelet, containerd or CNI. Each node mounts its own over them, in its own mount
# namespace; the host only has to have the mount points.
MOUNT_POINTS = ("/var/lib/kubelet", "/run/containerd", "/var/lib/cni", "/var/log/containers")
_FOREIGN = re.compile(r"^:((?:KUBE|CNI)-\S+) ", re.MULTILINE)
_OURS = re.compile(rf"^:((?:KUBE|CNI)-\S+|{CHAIN}) ", re.MULTILINE)
_FILTERS = (("iptables-save", "iptables-restore"), ("ip6tables-save", "ip6tables-restore"))


def remember(path: Path) -> None:
    """Record the host before the first change; an existing record is older and therefore right."""
    if path.exists():
        return
    chains = {save: _FOREIGN.findall(_output(save)) for save, _ in _FILTERS}
    if any(chain.startswith("KUBE-") for found in chains.values() for chain in found):
        raise TestbedError(
            "this machine's iptables already hold KUBE- chains: another Kubernetes runs here (or was left behind); "
            "the testbed does not mix with it: stop it and remove its chains first"
        )
    before = {
        "sysctls": {name: _sysctl(name) for name in SYSCTLS},
        "chains": chains,
        "made": [folder for folder in _with_parents(MOUNT_POINTS) if not Path(folder).exists()],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(before, indent=1))
    temporary.rename(path)


def set_sysctl(name: str, value: str) -> None:
    path = Path("/proc/sys") / name
    if path.exists() and path.read_text().strip() != value:
        path.write_text(value)


def restore(record: Path) -> bool:
    """Remove what the testbed put on the host and set back what it changed. Safe to repeat.

    Without a record what carries our names is removed all the same; False says that sysctls could not be set back.
    """
    before = json.loads(record.read_text()) if record.exists() else {}
    touched = any(root.exists() for root in _cgroup_roots()) or bool(_links(plugged=False))
    kill_cgroups()
    remove_links()
    if before or CHAIN in _output("iptables-save"):
        remove_chains(before.get("chains", {}))
    for name, value in before.get("sysctls", {}).items():
        if value is not None:
            set_sysctl(name, value)
    for folder in reversed(before.get("made", [])):
        _remove_if_empty(Path(folder))
    return bool(before) or not touched


def kill_cgroups() -> None:
    """End every process in the testbed's own cgroups (containers, also those whose shim is gone); remove them."""
    roots = [root for root in _cgroup_roots() if root.is_dir()]

    def members() -> list[int]:
        found = (path.read_text().split() for root in roots for path in root.rglob("cgroup.procs"))
        return [int(pid) for pids in found for pid in pids]

    def empty() -> bool:
        for pid in members():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for frozen in (p for root in roots for p in root.rglob("freezer.state") if p.read_text().strip() != "THAWED"):
            frozen.write_text("THAWED")
        return not members()

    if roots and not wait_until(empty, 10, every=0.05):
        raise TestbedError(f"processes {members()} in the cgroup {CGROUP} do not end on SIGKILL")
    for root in roots:
        for folder in sorted((p for p in [root, *root.rglob("*")] if p.is_dir()), key=lambda p: -len(p.parts)):
            folder.rmdir()


def make_cgroup(node: str) -> str:
    """The cgroup that holds one node's pods, in every controller; returns its name for the kubelet."""
    for root in _cgroup_roots():
        for folder in (root, root / node):
            folder.mkdir(exist_ok=True)
            if _is_cgroup_v2():
                _delegate(folder.parent)
            # A cgroup v1 cpuset starts empty and takes no process before both are set.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                own, parent = folder / setting, folder.parent / setting
                if own.exists() and parent.exists() and not own.read_text().strip():
                    own.write_text(parent.read_text())
        if (root / "cpu.shares").exists():
            (root / "cpu.shares").write_text(_CPU_SHARES)
    return f"/{CGROUP}/{node}"


def has_cgroups() -> bool:
    return any(_cgroup_roots())


def file_system(folder: Path) -> str:
    """Type of the file system a folder lies on, such as ext4."""
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    above = [row for row in rows if folder.is_relative_to(row[4])]
    deepest = max(above, key=lambda row: len(Path(row[4]).parts))
    return deepest[deepest.index("-") + 1]


def remove_links() -> None:
    """Our bridges and whatever is plugged into them."""
    for name in [*_links(plugged=True), *_links(plugged=False)]:
        subprocess.run(["ip", "link", "delete", name], capture_output=True)


def remove_chains(keep: dict[str, list[str]]) -> None:
    """kube-proxy's, CNI's and our own chains, and the rules that jump to them; other rules are not touched."""
    for save, restore_command in _FILTERS:
        script = removal_script(_output(save), set(keep.get(save, ())))
        if script:
            _output(restore_command, "--noflush", stdin=script)


def removal_script(saved: str, keep: set[str]) -> str:
    """iptables-restore input that removes our chains from what iptables-save printed; empty when there are none."""
    result: list[str] = []
    for table in saved.split("*")[1:]:
        chains = [name for name in _OURS.findall(table) if name not in keep]
        if not chains:
            continue
        jumps = re.compile(r" -[jg] (?:" + "|".join(map(re.escape, chains)) + r")(?:\s|$)")
        rules = [line for line in table.splitlines() if line.startswith("-A ")]
        stray = [line for line in rules if line.split()[1] not in chains and jumps.search(line)]
        result += ["*" + table.split("\n", 1)[0].strip(), *(f":{name} - [0:0]" for name in chains)]
        result += ["-D" + line[2:] for line in stray] + [f"-X {name}" for name in chains] + ["COMMIT"]
    return "\n".join(result) + "\n" if result else ""


def leftovers(folders: Iterable[Path]) -> list[str]:
    """What of a testbed is still on this host, in words; empty means clean."""
    found = [f"link {name}" for name in (*_links(plugged=True), *_links(plugged=False))]
    found += [f"cgroup {root}" for root in _cgroup_roots() if root.exists()]
    found += [f"iptables chain {name}" for save, _ in _FILTERS for name in _OURS.findall(_output(save))]
    for folder in folders:
        found += [f"mount {path}" for path in mounts_below(folder)]
        found += [f"folder {folder}"] if folder.exists() else []
    return found


def mounts_below(folder: Path) -> list[str]:
    """Mount points in or below a folder, deepest first."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    inside = (p for p in points if p == str(folder) or p.startswith(f"{folder}/"))
    return sorted(inside, key=len, reverse=True)


def remove_folder(folder: Path) -> None:
    """Delete a folder of ours; never walks into something that is mounted there."""
    for point in mounts_below(folder):
        subprocess.run(["umount", "-l", point], capture_output=True)
    if mounts_below(folder):
        raise TestbedError(
            f"{mounts_below(folder)[0]} cannot be unmounted, so {folder} is left; see `lsof` for its user"
        )
    if folder.exists():
        shutil.rmtree(folder)


def _delegate(folder: Path) -> None:
    """A cgroup v2 folder passes a controller on only when told to."""
    wanted = (folder / "cgroup.controllers").read_text().split()
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))


def _is_cgroup_v2() -> bool:
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def _cgroup_roots() -> Iterator[Path]:
    if _is_cgroup_v2():
        yield Path("/sys/fs/cgroup") / CGROUP
        return
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        # On a hybrid host runc also makes its folders in the cgroup2 hierarchy beside the old ones.
        if fields[fields.index("-") + 1] in ("cgroup", "cgroup2"):
            yield Path(fields[4]) / CGROUP


def _links(*, plugged: bool) -> list[str]:
    if shutil.which("ip") is None:
        return []
    rows = json.loads(_output("ip", "-json", "link", "show") or "[]")
    key = "master" if plugged else "ifname"
    return [row["ifname"] for row in rows if re.match(rf"{LINK_PREFIX}(0|-)", row.get(key, ""))]


def _sysctl(name: str) -> str | None:
    path = Path("/proc/sys") / name
    return path.read_text().strip() if path.exists() else None


def _with_parents(folders: Iterable[str]) -> list[str]:
    return [str(p) for folder in folders for p in [*reversed(Path(folder).parents), Path(folder)] if len(p.parts) > 2]


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # gone already, or somebody else uses it by now


def _output(*command: str, stdin: str | None = None) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, input=stdin)
    if done.returncode != 0:
        raise TestbedError(f"`{' '.join(command)}` failed: {done.stderr.strip()[:300]}")
    return done.stdout
