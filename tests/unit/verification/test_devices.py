"""Level 3: what the driver says of each device, and whether torch fits it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayflight.verification import blocking, diagnosis_from_checks, verify_all
from tests.unit.verification.probing import (
    COPY,
    GIB,
    NVML,
    device,
    rank,
    result,
    rows,
    snapshot_with_store,
    spec,
    verdicts,
)

GPU_ROWS = ["gpu-driver", "gpu-memory-errors", "gpu-throttled", "gpu-links", "gpu-memory-free", "cuda-fits", "gpu-copy"]


def refused(code, call="nvmlInit_v2"):
    return {"ok": False, "error": f"text (NVML_ERROR_{code}, {call})", "code": 1}


def second(**changes):
    return result(rank(0), rank(1, **changes))


@pytest.mark.parametrize(
    ("code", "next_step"),
    [
        ("GPU_IS_LOST", "fell off the bus"),
        ("LIB_RM_VERSION_MISMATCH", "reboot the node"),
        ("UNKNOWN", "systemd reloads its cgroup"),
        ("NO_PERMISSION", "let the container open the device"),
        ("IRQ_ISSUE", "kernel log"),
    ],
)
def test_a_driver_that_refuses_fails_its_pod_with_what_to_do(code, next_step):
    row = rows("gpu-driver", probed=second(nvml=refused(code), devices=[], devices_error="the same"))[1]
    assert row.verdict == "failed"
    assert f"NVML_ERROR_{code}" in row.observed
    assert next_step in row.next_step
    assert (row.facts["pod"], row.facts["node"]) == ("flight-gpu-worker-2", "gpu-2")


def test_a_driver_that_hangs_asks_to_drain_its_node():
    row = rows("gpu-driver", probed=second(nvml={"ok": False, "error": "did not answer within 20 s"}))[1]
    assert row.subject == "NVIDIA driver in pod flight-gpu-worker-2 on node gpu-2"
    assert "drain the node" in row.next_step


def test_without_nvml_the_driver_was_not_checked_and_that_is_no_pass():
    probed = second(nvml={"ok": None, "error": "libnvidia-ml.so.1 is not in the container"})
    assert verdicts("gpu-driver", probed=probed) == ["passed", "unknown"]
    strict = spec(verification={"strict": True})
    row = rows("gpu-driver", probed=probed, asked=strict)[1]
    assert row.verdict == "failed"
    assert "strict: what was not checked fails" in row.evidence
    assert row in blocking(verify_all(strict, snapshot_with_store(), probed))


def test_simulated_devices_have_no_driver_and_say_so():
    ranks = [rank(number, simulated=True, nvml={"ok": None}, copy=None) for number in (0, 1)]
    for name in GPU_ROWS:
        for row in rows(name, probed=result(*ranks), asked=spec(simulated=True, verification={"strict": True})):
            assert row.verdict == "not applicable"
            assert "SIMULATED" in row.observed


@pytest.mark.parametrize(
    ("row", "changes", "verdict", "words"),
    [
        ("gpu-memory-errors", {"ecc": {"enabled": True, "volatile_uncorrected": 2}}, "failed", "2 uncorrected ECC"),
        ("gpu-memory-errors", {"remapped_rows": {"pending": True}}, "failed", "remapping is pending"),
        ("gpu-memory-errors", {"remapped_rows": {"failure": True}}, "failed", "replace the GPU"),
        ("gpu-throttled", {"throttled_by": ["hardware slowdown"], "temperature_c": 91}, "warned", "at 91 °C"),
        ("gpu-links", {"nvlink": {"up": 9, "down": 3}}, "warned", "3 NVLinks down, 9 up"),
        ("gpu-links", {"pcie": {"width": 8, "width_max": 16}}, "warned", "PCIe x8 of x16"),
        (
            "gpu-memory-free",
            {"memory": {"total_bytes": 80 * GIB, "free_bytes": 70 * GIB}, "processes": [{"pid": 42}]},
            "warned",
            "10 GiB of 80 GiB held, processes: 42",
        ),
    ],
)
def test_a_sick_device_is_named_with_pod_and_node(row, changes, verdict, words):
    (check,) = rows(row, probed=second(devices=[device("GPU-1", **changes)]))
    assert check.verdict == verdict
    assert words in check.observed
    assert "GPU-1 in pod flight-gpu-worker-2 on node gpu-2" in check.observed
    assert check.facts["node"] == "gpu-2"


def test_a_warning_blocks_nothing():
    probed = second(devices=[device("GPU-1", nvlink={"up": 9, "down": 3})])
    checks = verify_all(spec(), snapshot_with_store(), probed)
    assert blocking(checks) == ()
    assert diagnosis_from_checks(checks).verdict == "healthy"


def test_what_the_driver_reserves_is_no_held_memory_and_an_idle_pcie_generation_no_fault():
    probed = second(devices=[device("GPU-1", memory={"total_bytes": 80 * GIB, "free_bytes": 78 * GIB})])
    assert verdicts("gpu-memory-free", probed=probed) == ["passed"]
    assert verdicts("gpu-links", probed=probed) == ["passed"]


def test_a_power_cap_alone_is_no_slowdown():
    assert verdicts("gpu-throttled", probed=second(devices=[device("GPU-1", throttled_by=["power cap"])])) == ["passed"]


def test_a_fact_that_needs_a_permission_is_not_checked_and_one_that_a_device_lacks_does_not_apply():
    kept = [rank(n, devices=[device(f"GPU-{n}", ecc=None, refused={"ecc": "no permission"})]) for n in (0, 1)]
    (row,) = rows("gpu-memory-errors", probed=result(*kept))
    assert (row.verdict, row.evidence) == ("unknown", "no permission")
    lacking = [rank(n, devices=[device(f"GPU-{n}", ecc=None)]) for n in (0, 1)]
    assert verdicts("gpu-memory-errors", probed=result(*lacking)) == ["not applicable"]


@pytest.mark.parametrize(
    ("label", "verdict"),
    [("NVIDIA-A100", "passed"), ("NVIDIA-A100-SHARED", "passed"), ("NVIDIA-H100-80GB-HBM3", "failed")],
)
def test_the_product_must_be_the_one_that_was_selected(label, verdict):
    asked = spec(group={"node_selector": {"nvidia.com/gpu.product": label}})
    assert verdicts("gpu-product", asked=asked) == [verdict]


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"torch_cuda": "13.0"}, "failed", "built for CUDA 13.0, the driver offers 12.4"),
        ({"torch_cuda": "12.8"}, "passed", ""),
        ({"torch_cuda": None}, "failed", "built without CUDA"),
        ({"copy": {**COPY, "capability": "12.0"}}, "failed", "compute capability 12.0"),
        ({"copy": {**COPY, "capability": "8.6"}}, "passed", ""),
        ({"copy": {**COPY, "capability": "12.0"}, "torch_archs": ["sm_80", "compute_90"]}, "passed", ""),
        ({"copy": {**COPY, "capability": "8.0"}, "torch_archs": ["sm_86", "compute_90"]}, "failed", "capability 8.0"),
        ({"nvml": NVML, "torch_archs": ["strange"]}, "passed", ""),
    ],
)
def test_torch_must_fit_driver_and_device(changes, verdict, words):
    (row,) = rows("cuda-fits", probed=second(**changes))
    assert row.verdict == verdict
    assert words in row.observed


def test_without_torch_nobody_knows_whether_it_fits():
    assert verdicts("cuda-fits", probed=result(rank(0, torch=None), rank(1, torch=None))) == ["unknown"]


def test_a_device_that_is_lost_is_not_counted():
    lost = {**device("GPU-1"), "uuid": None, "faults": {"handle": "GPU is lost"}}
    row = rows("gpu-count", probed=second(devices=[lost], devices_error="device 0: GPU is lost"))[1]
    assert (row.verdict, row.evidence) == ("failed", "device 0: GPU is lost")
    assert "container 0" in row.observed
    assert verdicts("gpu-uuids-unique", probed=second(devices=[lost])) == ["passed"]


def test_a_silent_rank_is_placed_by_what_kubernetes_knows():
    silent = rank(1, pod=None, python=None, devices=None, error="describe: did not answer within 60 s")
    (row,) = rows("probe-ran", probed=result(rank(0), silent))
    assert "rank 1 in pod flight-gpu-worker-2 on node gpu-2: describe: did not answer within 60 s" in row.evidence


def test_a_cluster_without_gpus_has_no_device_rows():
    seen = snapshot_with_store()
    pods = tuple(replace(pod, containers=tuple(replace(c, limits={}) for c in pod.containers)) for pod in seen.pods)
    for name in GPU_ROWS[:6]:
        assert rows(name, replace(seen, pods=pods), asked=spec(group={"gpus": 0})) == []
