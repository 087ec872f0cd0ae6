"""The one thing that differs between this machine and a Kubernetes cluster: the connection of the quick start's DAGs.

`make up` keeps it in Airflow's database, where the UI shows it and a person may change it; what is there stays as it
is. (A variable AIRFLOW_CONN_... would shadow whatever a person saves.) The Airflow of `make demo` alone has it as
a variable: its flight is one on this machine, whatever stands in the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dev.airflow_client import AirflowClient

ID = "kubernetes_default"
FENCED = "fenced"


def local(folder: Path, network: str = FENCED) -> Mapping[str, object]:
    """This machine, as a connection."""
    extra = {"backend": "local", "folder": str(folder / "clusters"), "network": network}
    return {"conn_type": "rayflight", "extra": extra}


def settle(client: AirflowClient, folder: Path, network: str | None) -> str:
    """Make the connection unless there is one; ``network`` is changed in one of this machine. What to tell, if any."""
    there = client.connection(ID)
    if there is None:
        made = local(folder, network or FENCED)
        client.add_connection(ID, conn_type=str(made["conn_type"]), extra=json.dumps(made["extra"]))
        return ""
    extra = extras(there)
    if extra.get("backend") != "local":
        said = f"Connection {ID} is not this machine any more: flights go where it says"
        return f"{said}; --network means nothing there" if network else said
    if network and extra.get("network", FENCED) != network:
        client.change_connection(ID, there, extra=json.dumps({**extra, "network": network}))
    return ""


def elsewhere(client: AirflowClient) -> bool:
    """Whether a person made it lead away from this machine."""
    there = client.connection(ID)
    return there is not None and extras(there).get("backend") != "local"


def extras(connection: Mapping[str, Any]) -> dict[str, Any]:
    """Of a connection as the REST API shows it."""
    found: dict[str, Any] = json.loads(connection.get("extra") or "{}")
    return found
