"""What a rank says about its container: devices, shared memory, memory limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayflight.probe.machine import describe, devices_of_container, memory_limit_bytes, own, shm_bytes

ONE, TWO = "GPU-11111111-aaaa", "GPU-22222222-bbbb"
QUERY = f"{ONE}, NVIDIA A100-SXM4-80GB, 81920, 550.54.15\n{TWO}, NVIDIA A100-SXM4-80GB, 81920, 550.54.15"
LISTING = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {ONE})\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: {TWO})"
MIG = (
    f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {ONE})\n"
    "  MIG 3g.40gb     Device  0: (UUID: MIG-33333333-cccc)\n"
    "  MIG 3g.40gb     Device  1: (UUID: MIG-44444444-dddd)\n"
    f"GPU 1: NVIDIA A100-SXM4-80GB (UUID: {TWO})"
)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvidia-smi on PATH whose two answers stand in files beside it."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\ncase "$1" in\n'
        f"--query-gpu=uuid,name,memory.total,driver_version) cat {tmp_path}/query ;;\n"
        f"-L) cat {tmp_path}/listing ;;\n"
        '*) echo "not expected: $*"; exit 99 ;;\nesac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_each_device_of_the_container_is_listed(smi: Path) -> None:
    (smi / "query").write_text(QUERY)
    (smi / "listing").write_text(LISTING)
    devices, error = devices_of_container()
    assert error == ""
    assert [device["uuid"] for device in devices] == [ONE, TWO]
    assert devices[0] == {
        "uuid": ONE,
        "name": "NVIDIA A100-SXM4-80GB",
        "memory_mib": 81920,
        "driver": "550.54.15",
    }


def test_mig_instances_stand_with_their_gpu(smi: Path) -> None:
    (smi / "query").write_text(QUERY)
    (smi / "listing").write_text(MIG)
    devices, _ = devices_of_container()
    assert [device.get("mig") for device in devices] == [["MIG-33333333-cccc", "MIG-44444444-dddd"], None]


def test_a_driver_that_fails_is_quoted(smi: Path) -> None:
    (smi / "nvidia-smi").write_text(
        "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"
    )
    devices, error = devices_of_container()
    assert devices == []
    assert "Driver/library version mismatch" in error


def test_without_nvidia_smi_there_are_no_devices_and_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert devices_of_container() == ([], "nvidia-smi is not in the container")


def test_the_pod_is_named_as_kuberay_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RAY_CLOUD_INSTANCE_ID", "c-gpu-worker-abcde")
    monkeypatch.setenv("RAYFLIGHT_SIMULATED_GPU", "1")
    facts = describe()
    assert (facts["pod"], facts["simulated"]) == ("c-gpu-worker-abcde", True)


@pytest.mark.parametrize(
    ("file", "own", "content", "limit"),
    [
        ("memory.max", "0::/", "2147483648\n", 2147483648),
        ("kubepods/pod1/memory.max", "0::/kubepods/pod1", "1048576\n", 1048576),
        ("memory.max", "0::/", "max\n", None),
        ("memory/memory.limit_in_bytes", "4:memory:/", "3221225472\n", 3221225472),
        ("memory/pod1/memory.limit_in_bytes", "4:cpu,memory:/pod1", "1048576\n", 1048576),
        ("memory/memory.limit_in_bytes", "4:memory:/", "9223372036854771712\n", None),
    ],
    ids=["v2", "v2, own group", "v2, no limit", "v1", "v1, own group", "v1, no limit"],
)
def test_a_memory_limit_is_read_on_both_cgroup_versions(
    tmp_path: Path, file: str, own: str, content: str, limit: int | None
) -> None:
    path = tmp_path / "cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    (tmp_path / "own").write_text(own + "\n")
    assert memory_limit_bytes(tmp_path / "cgroup", tmp_path / "own") == limit


def test_the_stricter_of_two_limits_counts(tmp_path: Path) -> None:
    (tmp_path / "pod1").mkdir()
    (tmp_path / "memory.max").write_text("100\n")
    (tmp_path / "pod1" / "memory.max").write_text("50\n")
    (tmp_path / "own").write_text("0::/pod1\n")
    assert memory_limit_bytes(tmp_path, tmp_path / "own") == 50


def test_no_shared_memory_mount_has_no_size(tmp_path: Path) -> None:
    assert shm_bytes(str(tmp_path / "nowhere")) is None


def test_without_containers_a_process_has_the_devices_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [{"uuid": ONE}, {"uuid": TWO}]
    monkeypatch.delenv("RAYFLIGHT_DEVICES", raising=False)
    assert own(devices) == devices
    monkeypatch.setenv("RAYFLIGHT_DEVICES", TWO)
    assert own(devices) == [{"uuid": TWO}]
    monkeypatch.setenv("RAYFLIGHT_DEVICES", "")
    assert own(devices) == []
