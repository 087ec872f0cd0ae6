"""What NVIDIA's data sheets promise of each product: dense TFLOP/s per format, memory aside; PCIe GB/s one way."""

from __future__ import annotations

_PCIE = {3: 15.75, 4: 31.5, 5: 63.0}  # GB/s, 16 lanes

# The first entry whose words all stand in the device's name counts: the more special ones come first.
PRODUCTS: tuple[tuple[str, dict[str, float]], ...] = (
    ("B200", {"fp32": 75, "tf32": 1100, "bf16": 2250, "fp16": 2250, "fp8": 4500, "pcie": _PCIE[5]}),
    ("H200", {"fp32": 67, "tf32": 494, "bf16": 989, "fp16": 989, "fp8": 1979, "pcie": _PCIE[5]}),
    ("H100 PCIe", {"fp32": 51, "tf32": 378, "bf16": 756, "fp16": 756, "fp8": 1513, "pcie": _PCIE[5]}),
    ("H100", {"fp32": 67, "tf32": 494, "bf16": 989, "fp16": 989, "fp8": 1979, "pcie": _PCIE[5]}),
    ("A100", {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312, "pcie": _PCIE[4]}),
    ("A10G", {"fp32": 31.5, "tf32": 35, "bf16": 70, "fp16": 70, "pcie": _PCIE[4]}),
    ("L40S", {"fp32": 91.6, "tf32": 183, "bf16": 362, "fp16": 362, "fp8": 733, "pcie": _PCIE[4]}),
    ("L4", {"fp32": 30.3, "tf32": 60, "bf16": 121, "fp16": 121, "fp8": 242, "pcie": _PCIE[4] / 2}),
    ("V100", {"fp32": 15.7, "fp16": 125, "pcie": _PCIE[3]}),
    ("T4", {"fp32": 8.1, "fp16": 65, "pcie": _PCIE[3]}),
)


def nominal(name: str) -> dict[str, float]:
    """The figures of a device; empty for one that is not in the list."""
    have = set(name.replace("-", " ").split())
    return next((figures for product, figures in PRODUCTS if set(product.split()) <= have), {})
