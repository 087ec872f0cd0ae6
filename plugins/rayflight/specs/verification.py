"""What a shape asks of its GPUs beyond being there: floors, how strict it is, what a failure leads to. Data only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rayflight.specs.strict import Strict

OnFail = Literal["fail", "warn", "replace"]
Floor = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class VerificationPolicy(Strict):
    """Absolute floors, and what is done with what is slow or was not seen. Without floors GPUs are only compared."""

    min_matmul_tflops: Floor | None = None  # of bf16; of fp16, else fp32, where a device has no bf16
    min_copy_gbps: Floor | None = None  # gigabytes per second between host and device, the slower direction
    min_allreduce_gbps: Floor | None = None  # gigabytes per second on the bus, of the slowest rank
    straggler: Literal["warn", "fail"] = "warn"  # a GPU far below the others of this cluster
    strict: bool = False  # what could not be checked fails
    on_fail: OnFail = "fail"  # warn: say it and go on; replace: other worker pods in place of those that failed
    replacements: Annotated[int, Field(ge=0, le=64)] = 2  # worker pods of one cluster that may be replaced
    watch: bool = True  # look on at Ray's counts and the devices' health while a training runs
