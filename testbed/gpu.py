"""Simulated GPUs of the testbed: what their nodes carry, the device plugin that advertises them, their health switch.

Standard library only. Names and files; starts nothing itself (the caller runs the daemon it is given).
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from testbed.errors import TestbedError
from testbed.paths import Layout
from testbed.process import Daemon

RESOURCE = "nvidia.com/gpu"
PER_NODE = 4
MEMORY_MIB = 40960
PRODUCT = "SIMULATED NVIDIA A100-SXM4-40GB"
NODES = ("gpu-1", "gpu-2")

# What NVIDIA's GPU feature discovery puts on a real GPU node, as far as pods select by it.
LABELS: Mapping[str, str] = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": PRODUCT.replace(" ", "-"),
    "nvidia.com/gpu.count": str(PER_NODE),
    "nvidia.com/gpu.memory": str(MEMORY_MIB),
    "nvidia.com/mig.capable": "false",
    "rayflight.dev/simulated-gpu": "true",
}
TAINT = "nvidia.com/gpu=present:NoSchedule"

# A sick GPU's numbers, as nvidia-smi in the container shows them.
SICK = {"ecc.errors.uncorrected.volatile.total": "7", "remapped_rows.failure": "Yes", "temperature.gpu": "91"}


def daemon_name(node: str) -> str:
    """Return the device plugin's name among the testbed's components."""
    return f"device-plugin-{node}"


def device_plugin(program: Path, layout: Layout, node: str) -> Daemon:
    """Return the daemon that advertises the GPUs of one node; `program` is the built deviceplugin."""
    return Daemon(
        name=daemon_name(node),
        argv=(
            str(program),
            f"--root-dir={layout.kubelet_root(node)}",
            f"--state-dir={layout.gpu_state(node)}",
            f"--node={node}",
            f"--resource={RESOURCE}",
            f"--gpus={PER_NODE}",
            f"--memory-mib={MEMORY_MIB}",
            f"--product={PRODUCT}",
        ),
        node=node,
    )


def uuid(node: str, index: int) -> str:
    """Return the UUID of a GPU: the same at every start, no two alike in a cluster. devices.go derives it the same."""
    digest = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    return f"GPU-sim-{digest[0:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def find(device: str) -> tuple[str, int]:
    """Return node and index of a GPU given as a UUID."""
    for node in NODES:
        for index in range(PER_NODE):
            if uuid(node, index) == device:
                return node, index
    raise TestbedError(f"no GPU of the testbed has the UUID {device}; `python -m testbed fault gpus` lists them")


def make_unhealthy(layout: Layout, node: str, index: int, numbers: Mapping[str, str] = SICK) -> str:
    """Turn one GPU sick: its plugin reports it within 200 ms, its nvidia-smi shows `numbers`. Returns the UUID."""
    file = _switch(layout, node, index)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name}={value}\n" for name, value in numbers.items()))
    return file.name


def make_healthy(layout: Layout, node: str, index: int) -> str:
    """Undo `make_unhealthy`. Returns the UUID."""
    file = _switch(layout, node, index)
    file.unlink(missing_ok=True)
    return file.name


def tell(layout: Layout, node: str, index: int, numbers: Mapping[str, str]) -> str:
    """Let one GPU say something else than the truth, in `nvidia-smi` alone; its plugin reports it as before."""
    file = _told(layout, node, index)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name}={value}\n" for name, value in numbers.items()))
    return file.name


def tell_truth(layout: Layout, node: str, index: int) -> None:
    """Undo `tell`."""
    _told(layout, node, index).unlink(missing_ok=True)


def is_truthful(layout: Layout, node: str, index: int) -> bool:
    """Say whether `tell` was undone."""
    return not _told(layout, node, index).exists()


def is_healthy(layout: Layout, node: str, index: int) -> bool:
    """Say what the switch of one GPU says."""
    return not _switch(layout, node, index).exists()


def _told(layout: Layout, node: str, index: int) -> Path:
    switch = _switch(layout, node, index)
    return switch.with_name("told") / switch.name


def _switch(layout: Layout, node: str, index: int) -> Path:
    if node not in NODES:
        raise TestbedError(f"Kubernetes node {node!r} has no GPUs; the testbed's GPU nodes are {', '.join(NODES)}")
    if not 0 <= index < PER_NODE:
        raise TestbedError(f"{node} has the GPUs 0 to {PER_NODE - 1}, not {index}")
    return layout.gpu_state(node) / "unhealthy" / uuid(node, index)
