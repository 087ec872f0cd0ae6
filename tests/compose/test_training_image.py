"""docker/training on a stand-in for Ray's image. On request only: PyTorch with CUDA is three gigabytes to download."""

from __future__ import annotations

import os

import pytest

from dev.airflow_home import ROOT
from dev.compose import stand_ins
from dev.compose.docker import Docker

IMAGE = "registry.example/rayflight-training:2.60.0"
ASK = "import torch, ray; print(torch.__version__, torch.version.cuda, ray.__version__)"


@pytest.mark.skipif(
    not os.environ.get("RAYFLIGHT_TEST_TRAINING_IMAGE"), reason="large: set RAYFLIGHT_TEST_TRAINING_IMAGE=1"
)
def test_it_builds_and_has_pytorch_with_cuda_beside_ray(daemon: Docker):
    stand_ins.make(daemon, stand_ins.RAY)
    daemon("build", "--network", "host", "--tag", IMAGE, str(ROOT / "docker" / "training"))
    said = daemon("run", "--rm", "--network", "none", IMAGE, "python3", "-c", ASK)
    torch, cuda, ray = said.split()[-3:]
    assert torch.startswith("2.8.0")
    assert cuda == "12.8"
    assert ray == "2.60.0"
