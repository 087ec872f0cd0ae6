"""Allocate, copy to the device, multiply in each number format, check. On CUDA where torch sees it, else on the CPU.

All factors are small integers, so every product is exact in float32 and in TF32: any difference at all is a fault. That
product is checked by Freivalds' method, (A·B)·x against A·(B·x), in float64 on the CPU; narrower formats, whose result
is rounded, are compared with it element by element within a stated tolerance.
"""

from __future__ import annotations

import random
import time
from typing import Any

_SIZE_CUDA = 4096
_SIZE_CPU = 512
_SIZE_PYTHON = 48
_ROUNDS = {"cuda:0": 10, "cpu": 2}
_ROWS = 512  # rows that are checked at a time: float64 copies of the whole would take hundreds of MB per rank
_FP8_SINCE = (8, 9)  # compute capability

# Largest difference that is no fault, as a part of the largest element. fp32 and tf32: none. bf16 and fp16 round the
# result (2^-9, 2^-11) and may add partial sums in the narrow format; fp8's tensor cores add with about 14 bits.
TOLERANCES = {"fp32": 0.0, "tf32": 0.0, "bf16": 2**-7, "fp16": 2**-8, "fp8": 2**-5}


def compute(seed: int) -> dict[str, Any]:
    """``{device, size, matmul_ok, seconds, max_error, formats}``; without torch a small product in Python, said so.

    ``formats``: for each of fp32, tf32, bf16, fp16, fp8 that the device has: ok, max_error, tolerance, tflops, error.
    """
    try:
        import torch  # noqa: PLC0415 - torch need not be there
    except ImportError:
        return _in_python(seed)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    size = _SIZE_CUDA if device != "cpu" else _SIZE_CPU
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.randint(-8, 9, (size, size), generator=generator, dtype=torch.int8) for _ in range(2))
    vector = torch.randint(1, 9, (size, 1), generator=generator).double()  # no zero: it would hide a wrong column
    begin = time.perf_counter()
    exact = _multiplied(torch, "fp32", left.to(device), right.to(device))
    error = _freivalds(torch, exact, left, right, vector)
    formats = {"fp32": _judged("fp32", error, _tflops(torch, "fp32", left.to(device), right.to(device)))}
    for name in _formats(torch, device):
        formats[name] = _measured(torch, name, left.to(device), right.to(device), exact)
    return {
        "device": f"{device} {torch.cuda.get_device_name(0)}" if device != "cpu" else "cpu",
        "size": size,
        "matmul_ok": all(found["ok"] is not False for found in formats.values()),
        "seconds": round(time.perf_counter() - begin, 6),
        "max_error": error,
        "formats": formats,
    }


def _formats(torch: Any, device: str) -> list[str]:
    """The formats besides fp32 that this device multiplies in hardware; on the CPU bf16 alone, for the code's sake."""
    if device == "cpu":
        return ["bf16"]
    capability = torch.cuda.get_device_capability(0)
    found = ["fp16"]
    if capability >= (8, 0):
        found = ["tf32", "bf16", "fp16"]
    if capability >= _FP8_SINCE and hasattr(torch, "float8_e4m3fn") and hasattr(torch, "_scaled_mm"):
        found.append("fp8")
    return found


def _measured(torch: Any, name: str, left: Any, right: Any, exact: Any) -> dict[str, Any]:
    try:
        product = _multiplied(torch, name, left, right).float()
        error = float((product - exact).abs().max() / exact.abs().max())
        return _judged(name, error, _tflops(torch, name, left, right))
    except (RuntimeError, ValueError, TypeError) as error:  # a format that this torch or device refuses
        return {"ok": None if name == "fp8" else False, "error": str(error).splitlines()[0][:300]}


def _judged(name: str, error: float, tflops: float) -> dict[str, Any]:
    tolerance = TOLERANCES[name]
    # Not "error > tolerance": that is False for NaN.
    return {"ok": error <= tolerance, "max_error": error, "tolerance": tolerance, "tflops": tflops, "error": None}


def _multiplied(torch: Any, name: str, left: Any, right: Any) -> Any:
    return _product(torch, name, *_operands(torch, name, left, right))


def _operands(torch: Any, name: str, left: Any, right: Any) -> tuple[Any, Any]:
    kinds = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn"}
    kind = getattr(torch, kinds[name])
    if name == "fp8":  # the second factor must lie in memory by columns
        return left.float().to(kind), right.float().t().contiguous().to(kind).t()
    return left.to(kind), right.to(kind)


def _product(torch: Any, name: str, left: Any, right: Any) -> Any:
    if name == "fp8":
        one = torch.ones((), device=left.device)
        return torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: SLF001
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        return left @ right
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _tflops(torch: Any, name: str, left: Any, right: Any) -> float:
    """The mean over some rounds in one go, after a warm-up; 10^12 operations per second, two per multiplication."""
    operands = _operands(torch, name, left, right)
    rounds = _ROUNDS[str(left.device)]
    cuda = left.device.type == "cuda"
    _product(torch, name, *operands)
    if cuda:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(rounds):
        _product(torch, name, *operands)
    if cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / rounds
    return round(2 * int(left.shape[0]) ** 3 / seconds / 1e12, 4)


def _freivalds(torch: Any, product: Any, left: Any, right: Any, vector: Any) -> float:
    """The largest difference of product·x from left·(right·x), all in float64 on the CPU, some rows at a time."""

    def times(matrix: Any, by: Any) -> Any:
        return torch.cat([matrix[row : row + _ROWS].cpu().double() @ by for row in range(0, matrix.shape[0], _ROWS)])

    return float((times(product, vector) - times(left, times(right, vector))).abs().max())


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
        "size": _SIZE_PYTHON,
        "matmul_ok": error == 0,
        "seconds": round(seconds, 6),
        "max_error": float(error),
        "formats": {},
    }
