"""Runs the probe's own code on the real GPUs of this machine. Started by run.sh, which gives it its deadline."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rayflight.probe.child import in_child
from rayflight.probe.collective import all_reduce
from rayflight.probe.compute import compute
from tests.gpu.nominal import nominal

NOTHING_TO_PROVE = 77
RAY_SECONDS = 100
LEFT_BYTES = 256 * 2**20
wrong: list[str] = []


def say(text: str) -> None:
    print(text, flush=True)


def check(what: str, right: bool, found: object = "") -> None:
    say(f"{'ok   ' if right else 'WRONG'} {what}{f': {found}' if found != '' else ''}")
    if not right:
        wrong.append(what)


def figure(what: str, measured: float | None, unit: str, promised: float | None) -> None:
    share = f"{measured / promised:6.1%} of {promised:g}" if measured and promised else "no nominal figure"
    say(f"      {what:<28}{measured if measured is not None else 'none':>10} {unit:<8} {share}")


def main() -> int:
    driver = in_child("nvml", 30)
    if driver["ok"] is None or not (driver.get("devices") or driver.get("error")):
        say(f"no NVIDIA GPU: {driver.get('error') or 'the driver lists no device'}. Nothing was proven.")
        return NOTHING_TO_PROVE
    check("NVML answers every question", bool(driver["ok"]), driver.get("error") or f"driver {driver['driver']}")
    if not driver["devices"]:
        return 1
    for device in driver["devices"]:
        say(f"      {json.dumps(device)}")
    try:
        import torch  # noqa: PLC0415 - it may be missing, and that is an answer
    except ImportError:
        torch = None
    for at, device in enumerate(driver["devices"]):
        one_device(at, device, torch)
    if torch is not None:
        say(f"      torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
        collectives(torch.cuda.device_count())
    through_ray(len(driver["devices"]))
    before, after = free_memory(driver), free_memory(in_child("nvml", 30))
    for uuid, size in before.items():
        less = size - after.get(uuid, 0)
        check(f"{uuid} has its memory back", less < LEFT_BYTES, f"{less} bytes less")
    if torch is None:
        wrong.append("PyTorch is missing: no product and no collective was proven")
    say("everything was right" if not wrong else f"NOT PROVEN: {'; '.join(wrong)}")
    return 1 if wrong else 0


def free_memory(driver: dict[str, Any]) -> dict[str, int]:
    return {it["uuid"]: it["memory"]["free_bytes"] for it in driver["devices"] if it.get("uuid") and it.get("memory")}


def one_device(at: int, device: dict[str, Any], torch: Any) -> None:
    """In processes of their own that see this device alone, as Ray's workers do."""
    os.environ["CUDA_VISIBLE_DEVICES"] = str(at)
    promised = nominal(str(device["name"]))
    say(f"GPU {at}: {device['name']} {device['uuid']}")
    copied = in_child("cuda", 60)
    check("context, memory and copies by the CUDA driver", copied["ok"] is True, copied.get("error") or "")
    figure("host to device", copied.get("to_device_gbps"), "GB/s", promised.get("pcie"))
    figure("device to host", copied.get("to_host_gbps"), "GB/s", promised.get("pcie"))
    if torch is not None:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(computed)
        check("products on the GPU", found["device"].startswith("cuda") and found["matmul_ok"], found["device"])
        for name, it in found["formats"].items():
            check(f"{name} within {it.get('tolerance')}", it["ok"] is True, it.get("error") or it.get("max_error"))
            figure(name, it.get("tflops"), "TFLOP/s", promised.get(name))
    del os.environ["CUDA_VISIBLE_DEVICES"]


def computed() -> dict[str, Any]:
    return compute(seed=1)


def reduced(arguments: tuple[str, int, int]) -> dict[str, Any]:
    address, size, rank = arguments
    os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    return all_reduce(address, size, rank, "nccl", 60)


def collectives(count: int) -> None:
    if not count:
        return check("torch sees the GPUs", False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        found = pool.map(reduced, [(address, count, rank) for rank in range(count)], chunksize=1)
    check(f"all-reduce over {count} GPUs by NCCL", all(it["ok"] for it in found), [it["sum"] for it in found])
    for rank, it in enumerate(found):
        figure(f"rank {rank}, bus bandwidth", it["bandwidth_gbps"], "GB/s", None)
        figure(f"rank {rank}, from the one before", it["from_previous_gbps"], "GB/s", None)
    return None


def through_ray(count: int) -> None:
    """The whole probe, as `verify` submits it, on a Ray of this machine; skipped where Ray is not installed."""
    beside = Path(sys.executable).with_name("ray")
    ray = str(beside) if beside.exists() else shutil.which("ray")
    if ray is None:
        return say("Ray is not installed: the probe as a Ray job was not proven.")
    with tempfile.TemporaryDirectory(prefix="rf-", ignore_cleanup_errors=True) as folder:
        start = [ray, "start", "--head", "--block", f"--num-gpus={count}", "--include-dashboard=false",
                 f"--temp-dir={folder}", "--node-ip-address=127.0.0.1", "--port=26379"]  # fmt: skip
        head = subprocess.Popen(start, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            probe(count)
        finally:
            os.killpg(head.pid, signal.SIGTERM)
            head.wait(30)


def probe(count: int) -> None:
    until = time.monotonic() + 40
    while time.monotonic() < until:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", 26379)) == 0:
                break
        time.sleep(0.5)
    expect = json.dumps({"gpus": count, "total_seconds": RAY_SECONDS})
    command = [sys.executable, "-m", "rayflight.probe.main", "--expect", expect]
    environment = {**os.environ, "RAY_ADDRESS": "127.0.0.1:26379"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RAYFLIGHT_PROBE_RESULT ")), "")
    if not line:
        return check("the probe as a Ray job", False, (done.stdout + done.stderr)[-1000:])
    result = json.loads(line.partition(" ")[2])
    errors = [rank["error"] for rank in result["ranks"] if rank["error"]]
    check(f"the probe as a Ray job on {len(result['ranks'])} bundles", not errors, errors or result["seconds"])
    return check("it left nothing behind", not any(it.get("held") for it in result["after"].values()), result["after"])


if __name__ == "__main__":
    raise SystemExit(main())
