"""Allocate, copy to the device, multiply, and check the numbers. On CUDA where torch sees it, else on the CPU.

All factors are small integers, so every sum is exact in float32 (and in TF32): any difference at all is a fault. The
product is checked by Freivalds' method, (A·B)·x against A·(B·x), in float64 on the CPU.
"""

from __future__ import annotations

import random
import time
from typing import Any

_SIZE_CUDA = 2048
_SIZE_CPU = 512
_SIZE_PYTHON = 48


def compute(seed: int) -> dict[str, Any]:
    """``{device, matmul_ok, seconds, max_error}``; without torch a small product in Python, said as such."""
    try:
        import torch  # noqa: PLC0415 - torch need not be there
    except ImportError:
        return _in_python(seed)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    size = _SIZE_CUDA if device != "cpu" else _SIZE_CPU
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Any:
        return torch.randint(-8, 9, shape, generator=generator).float()

    left, right, vector = draw(size, size), draw(size, size), draw(size, 1).double()
    begin = time.perf_counter()
    product = (left.to(device) @ right.to(device)).cpu()
    seconds = time.perf_counter() - begin
    expected = left.double() @ (right.double() @ vector)
    error = float((product.double() @ vector - expected).abs().max())
    name = torch.cuda.get_device_name(0) if device != "cpu" else "cpu"
    return {
        "device": f"{device} {name}" if device != "cpu" else "cpu",
        "matmul_ok": error == 0.0,
        "seconds": round(seconds, 6),
        "max_error": error,
    }


def _in_python(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)  # noqa: S311 - test numbers
    size = range(_SIZE_PYTHON)
    left, right = ([[draw.randint(-8, 8) for _ in size] for _ in size] for _ in range(2))
    vector = [draw.randint(-8, 8) for _ in size]
    begin = time.perf_counter()
    product = [[sum(left[i][k] * right[k][j] for k in size) for j in size] for i in size]
    seconds = time.perf_counter() - begin
    inner = [sum(right[k][j] * vector[j] for j in size) for k in size]
    error = max(
        abs(sum(product[i][j] * vector[j] for j in size) - sum(left[i][k] * inner[k] for k in size)) for i in size
    )
    return {
        "device": "cpu (pure Python: torch is not installed)",
        "matmul_ok": error == 0,
        "seconds": round(seconds, 6),
        "max_error": float(error),
    }
