"""The probe on a real Ray whose NVIDIA libraries are fakes: what hangs is named, what was taken is given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayflight.probe.child import held
from rayflight.rayjobs.client import RayJobsClient
from rayflight.verification.probed import Probed
from tests.gpu.fake_libraries import compiled
from tests.ray.test_real_probe import fly

EXPECT = {"gpus": 2, "step_seconds": 8, "total_seconds": 60}

# A torch that is there, and hangs when the rank with this seed draws its numbers.
HANGING_TORCH = """
import time
__version__ = "0.0.fake"
class version: cuda = "12.4"
class cuda:
    is_available = staticmethod(lambda: False)
class Generator:
    def manual_seed(self, seed):
        if seed == 1:
            time.sleep(1000)
        raise RuntimeError("this torch computes nothing")
"""


@pytest.fixture
def fakes(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "steering").write_text("")
    return {"LD_LIBRARY_PATH": str(compiled(tmp_path)), "FAKE_GPU": str(tmp_path / "steering")}


def uuid(number: int) -> str:
    return f"GPU-0000000{number}-aaaa-bbbb-cccc-dddddddddddd"


async def test_the_driver_is_asked_and_its_memory_is_as_before(jobs: RayJobsClient, fakes: dict[str, str]) -> None:
    result = await fly(jobs, "fake-gpus", EXPECT, fakes)
    for rank in result["ranks"]:
        assert rank["error"] is None
        assert [device["uuid"] for device in rank["devices"]] == [uuid(0), uuid(1)]
        assert (rank["nvml"]["ok"], rank["nvml"]["driver"]) == (True, "550.54.15")
        assert (rank["copy"]["ok"], rank["copy"]["capability"]) == (True, "8.0")
    read = Probed.read(result)
    assert (read.problem, [rank["error"] for rank in read.ranks]) == ("", [None, None])
    (left,) = result["after"].values()
    assert left == {"held": [], "memory_free": {uuid(number): 80 * 2**30 for number in (0, 1)}}


async def test_a_rank_that_hangs_is_named_with_its_pod_node_and_gpu_and_ends(
    jobs: RayJobsClient, fakes: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(HANGING_TORCH)
    result: dict[str, Any] = await fly(jobs, "hanging", EXPECT, {**fakes, "PYTHONPATH": str(tmp_path)})
    fine, hanging = result["ranks"]
    place = f"it ran on pod {hanging['pod']}, Ray node {hanging['node_ip']}, GPU {uuid(hanging['gpu_ids'][0])}"
    assert hanging["error"].startswith(f"compute: did not answer within 8 s; {place}")
    assert hanging["copy"]["ok"] is True
    assert "this torch computes nothing" in fine["error"]
    assert "collective: skipped, since not every rank answered" in fine["error"]
    assert result["seconds"]["total"] < 45
    (left,) = result["after"].values()
    assert left["held"] == []
    assert held(hanging["pid"]) == ""
