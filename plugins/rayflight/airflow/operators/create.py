"""``provision``: creates the RayCluster of this attempt, or adopts the one that the same attempt made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rayflight.airflow.links import ArchiveLink, RayDashboardLink
from rayflight.airflow.operators.base import FlightOperator
from rayflight.airflow.operators.plan import PlanFlight, as_xcom

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.backends.base import ClusterRef
    from rayflight.lifecycle.flight import Flight, Tools


class CreateRayCluster(PlanFlight):
    """With ``flight=`` of a PlanFlight, creates its cluster; alone (``cluster=…``), plans by itself first.

    Returns the flight, with ``uid`` of the cluster, for the operators that follow.
    """

    operator_extra_links = (RayDashboardLink(), ArchiveLink())
    template_fields = (*PlanFlight.template_fields, "flight")

    def __init__(self, *, cluster: Any = None, **kwargs: Any) -> None:
        super().__init__(cluster=cluster, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Raises InvalidSpec, PermissionMissing, ForeignObject, ApiUnreachable; nothing half-made is left."""
        if self.flight is None:
            self.flight = super().execute(context)
        flight = self.the_flight()
        ref, url = self.run_async(lambda tools: _create(tools, flight), flight)
        RayDashboardLink().push(context, url)
        return {**as_xcom(flight), "uid": ref.uid}


async def _create(tools: Tools, flight: Flight) -> tuple[ClusterRef, str | None]:
    from rayflight.lifecycle.provision import provision

    ref = await provision(tools, flight)
    return ref, tools.backend.dashboard_url(ref)


__all__ = ["CreateRayCluster", "FlightOperator"]
