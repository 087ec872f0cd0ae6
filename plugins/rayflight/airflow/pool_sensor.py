"""``PoolGoodSensor``: waits until the pool's newest verifications passed. Reads the archive; asks no cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from rayflight.airflow import access, forms, settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class PoolGoodSensor(BaseSensorOperator):
    """Good is: of each node, the newest verification within ``within`` passed. It frees its slot between two looks.

    ``verify_gpu_pool`` and every run that verifies write what this reads. To start a DAG when a pool was found good,
    schedule it on ``verified_pool(shape)`` instead.

    :param shape: only verifications of this shape count; empty: of any
    :param nodes: Kubernetes nodes that must be good; empty: at least ``at_least`` nodes, and none that failed
    :param within: how old a verification may be
    :param archive: the archive's base, where it is not Airflow's ``[rayflight] archive``
    """

    template_fields: Sequence[str] = ("shape", "nodes", "at_least", "archive")

    def __init__(
        self,
        *,
        shape: str = "",
        nodes: Sequence[str] = (),
        at_least: int | str = 1,
        within: timedelta | str = "24h",
        archive: str | None = None,
        mode: str = "reschedule",
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.shape, self.nodes, self.at_least = shape, nodes, at_least
        self.within, self.archive = forms.span(within, field="within"), archive

    def poke(self, context: Context) -> bool:
        """Says why not, once per look."""
        from rayflight.lifecycle.fleet import pool_state

        base = access.archive(self.archive or settings.archive_base())
        good, why = asyncio.run(
            pool_state(
                base,
                shape=self.shape,
                nodes=self.nodes,
                since=datetime.now(UTC) - self.within,
                at_least=forms.count(self.at_least, field="at_least") or 1,
            )
        )
        self.log.info("The pool is %s", why if good else f"not good yet: {why}")
        return good
