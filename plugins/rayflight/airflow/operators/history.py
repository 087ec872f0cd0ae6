"""``history``: what the pool's devices did over their last verifications, for the log and for XCom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from rayflight.airflow import access, forms, settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class PoolHistory(BaseOperator):
    """Returns one row per GPU, those that failed or became slower first. Reads the archive; asks no cluster.

    :param nodes: Kubernetes nodes; by default all that were ever verified
    :param last: how many verifications of each are looked at
    :param archive: the archive's base, where it is not Airflow's ``[rayflight] archive``
    """

    template_fields: Sequence[str] = ("nodes", "last", "archive")

    def __init__(
        self, *, nodes: Sequence[str] = (), last: int | str = 20, archive: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.nodes, self.last, self.archive = nodes, last, archive

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Raises InvalidSpec for an archive of no known kind."""
        from rayflight.lifecycle.fleet import read_history

        base = access.archive(self.archive or settings.archive_base())
        rows = asyncio.run(read_history(base, self.nodes, last=forms.count(self.last, field="last") or 20))
        for row in rows:
            (self.log.warning if row.worrying else self.log.info)(row.sentence())
        return [row.to_dict() for row in rows]
