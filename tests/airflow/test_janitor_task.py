"""The janitor as a task and as a command: what it is told, what it asks Airflow, and when it refuses."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.models.connection import Connection
from airflow.secrets.metastore import MetastoreBackend

from rayflight.airflow import SweepClusters, cli
from rayflight.airflow.operators import sweep
from rayflight.errors import InvalidSpec
from rayflight.lifecycle.janitor import RunState
from tests.fake_context import assert_one_sentence
from tests.world import OWNER


@dataclass
class Airflow:
    """What a task process can ask about other runs."""

    runs: int = 1
    state: str = "success"
    tasks: dict[str, str | None] = field(default_factory=dict)
    silent: bool = False

    def get_dr_count(self, *, dag_id: str, run_ids: list[str]) -> int:
        if self.silent:
            raise ConnectionError("no answer")
        assert (dag_id, run_ids) == (OWNER.dag_id, [OWNER.run_id])
        return self.runs

    def get_dagrun_state(self, *, dag_id: str, run_id: str) -> str:
        return self.state

    def get_task_states(self, *, dag_id: str, run_ids: list[str]) -> dict[str, Any]:
        return {run_ids[0]: self.tasks}


@pytest.mark.parametrize(
    ("airflow", "state"),
    [
        (Airflow(runs=0), RunState.ABSENT),
        (Airflow(state="running"), RunState.ALIVE),
        (Airflow(state="queued"), RunState.ALIVE),
        (Airflow(state="failed", tasks={"train": "failed", "tear_down": "success"}), RunState.ENDED),
        (Airflow(state="failed", tasks={"train": "skipped", "tear_down": "skipped"}), RunState.ENDED),
        (Airflow(state="failed", tasks={"train": "failed", "tear_down": "deferred"}), RunState.ALIVE),
        (Airflow(state="failed", tasks={"train": "failed", "tear_down": None}), RunState.ALIVE),
        (Airflow(silent=True), RunState.UNKNOWN),
    ],
)
def test_a_run_is_over_only_when_no_task_of_it_will_run(airflow: Airflow, state: RunState) -> None:
    assert sweep.state_of(airflow, OWNER) is state


@pytest.mark.parametrize("value", [["a", "b"], "['a', 'b']", '["a", "b"]', "a, b", "a b"])
def test_names_come_as_a_list_or_as_its_text(value: Any) -> None:
    assert sweep._names(value) == ["a", "b"]


@pytest.mark.parametrize("value", [[], "[]", ""])
def test_no_names_are_no_names(value: Any) -> None:
    assert sweep._names(value) == []


def test_an_airflow_without_a_name_does_not_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__RAYFLIGHT__INSTANCE", raising=False)
    with pytest.raises(InvalidSpec, match=r"\[rayflight\] instance: it is not set") as refused:
        SweepClusters(task_id="sweep").execute({"ti": Airflow()})  # type: ignore[typeddict-item]
    assert_one_sentence(refused.value)


def test_the_command_ends_with_the_same_sentence_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__RAYFLIGHT__INSTANCE", raising=False)
    (group,) = cli.commands()
    (command,) = group.subcommands
    arguments = argparse.Namespace(conn_id="kubernetes_default", namespace=[], release=[], dry_run=False)
    with pytest.raises(SystemExit, match=r"set AIRFLOW__RAYFLIGHT__INSTANCE to a name"):
        command.func(arguments)


def test_the_command_knows_the_connections_of_airflows_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a task the SDK does not look there; whoever sweeps by hand must not sweep another cluster instead."""
    kept = Connection("of_the_ui", conn_type="kubernetes", extra='{"kube_config_path": "/no/such/kubeconfig"}')
    monkeypatch.setattr(
        MetastoreBackend, "get_connection", lambda _, conn_id, **__: kept if conn_id == kept.conn_id else None
    )
    monkeypatch.setenv("AIRFLOW__RAYFLIGHT__INSTANCE", "ours")
    (command,) = cli.commands()[0].subcommands
    with pytest.raises(SystemExit, match="/no/such/kubeconfig"):
        command.func(argparse.Namespace(conn_id="of_the_ui", namespace=[], release=[], dry_run=True))
