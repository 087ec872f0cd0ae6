"""What a shape asks of its GPUs beyond being there: floors, and how strict the verification is. Data only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rayflight.specs.strict import Strict

Floor = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class VerificationPolicy(Strict):
    """Absolute floors, and what is done with what is slow or was not seen. Without floors GPUs are only compared."""

    min_matmul_tflops: Floor | None = None  # of bf16; of fp16, else fp32, where a device has no bf16
    min_copy_gbps: Floor | None = None  # gigabytes per second between host and device, the slower direction
    min_allreduce_gbps: Floor | None = None  # gigabytes per second on the bus, of the slowest rank
    straggler: Literal["warn", "fail"] = "warn"  # a GPU far below the others of this cluster
    strict: bool = False  # what could not be checked fails
