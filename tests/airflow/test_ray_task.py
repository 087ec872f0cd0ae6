"""``@task.ray``: what is sent, what comes back, and what is refused while it costs nothing."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.serialization.serialized_objects import DagSerialization

from rayflight.airflow import access, training_run
from rayflight.airflow.decorator import RayTaskOperator
from rayflight.errors import InvalidSpec, JobFailed
from rayflight.states import JobStatus
from tests.fake_context import a_context, assert_one_sentence
from tests.world import World, flight


def double(numbers: list[int], *, label: str = "sum") -> dict[str, Any]:
    import os  # noqa: PLC0415 - as a function must that is sent

    print("working in", os.getcwd())  # noqa: PTH109
    return {label: [2 * number for number in numbers], "run_id": os.environ.get("RAYFLIGHT_RUN_ID")}


def fail(depth: int) -> None:
    def inner() -> None:
        raise ZeroDivisionError(f"at depth {depth}")

    inner()


def give_an_object() -> object:
    return {"model": [object()]}


def give_too_much() -> str:
    return "x" * 300_000


def give_nothing_back() -> None:
    import os  # noqa: PLC0415

    os._exit(0)


def use_what_is_beside_it() -> str:
    import beside  # type: ignore[import-not-found]  # noqa: PLC0415

    return str(beside.WORD)


def tell_the_run(run_id: str, params: dict[str, Any]) -> list[Any]:
    return [run_id, params]


class Running(World):
    """Each submission is really run, in a process of its own, out of the package that was uploaded."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.hold(session=self.ray.session)
        self.steps = [self.run]

    def run(self) -> None:
        submission = self.ray.submitted[-1]
        package = self.ray.packages[submission.runtime_env["working_dir"].removeprefix("gcs://")]
        zipfile.ZipFile(io.BytesIO(package)).extractall(self.folder)
        ran = subprocess.run(
            [sys.executable, *submission.entrypoint.split()[1:]],
            cwd=self.folder, env=submission.runtime_env["env_vars"], capture_output=True,
        )  # fmt: skip
        self.ray.log = ran.stdout + ran.stderr
        tail = ran.stderr.decode()
        self.ray.put(submission.id, JobStatus.FAILED if ran.returncode else JobStatus.SUCCEEDED, message=tail)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Running:
    world = Running(tmp_path / "node")

    async def resolved(conn_id: str) -> str:
        return conn_id

    monkeypatch.setattr(access, "aaccess", resolved)
    monkeypatch.setattr(access, "access", lambda conn_id: conn_id)
    monkeypatch.setattr(access, "backend", lambda _: world)
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "flight.json").write_text("{}")
    return world


@pytest.fixture
def run(world: Running, tmp_path: Path) -> Callable[..., Any]:
    def call(function: Callable[..., Any], *args: Any, kwargs: dict[str, Any] | None = None, **options: Any) -> Any:
        made = flight(archive=(tmp_path / "archive").as_uri()).to_dict()
        operator = RayTaskOperator(
            task_id="f", python_callable=function, op_args=args, op_kwargs=kwargs or {}, flight=made, deferrable=False,
            **options,
        )  # fmt: skip
        context: Any = {**a_context(task_id="f"), "run_id": "run-1", "params": {"epochs": 3}}
        return operator.execute(context)

    return call


def test_a_function_runs_elsewhere_and_its_result_comes_back(run: Callable[..., Any], world: Running):
    assert run(double, [1, 2], kwargs={"label": "Grüße"}) == {"Grüße": [2, 4], "run_id": "run-1"}
    assert f"working in {world.folder}".encode() in world.ray.log


def test_what_it_reserves_is_reserved_for_its_submission(run: Callable[..., Any], world: Running):
    run(double, [1], num_gpus=1, num_cpus=2, env={"A": "1"})
    submission = world.ray.submitted[0]
    assert (submission.num_gpus, submission.num_cpus) == (1, 2)
    assert submission.runtime_env["env_vars"]["A"] == "1"


def test_a_folder_can_be_sent_along(run: Callable[..., Any], tmp_path: Path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "beside.py").write_text("WORD = 'here'\n")
    assert run(use_what_is_beside_it, working_dir=tmp_path / "code") == "here"


def test_parameters_of_airflows_context_are_filled_in(run: Callable[..., Any]):
    assert run(tell_the_run) == ["run-1", {"epochs": 3}]


def test_an_exception_shows_the_functions_own_frames(run: Callable[..., Any], world: Running):
    with pytest.raises(JobFailed, match="ZeroDivisionError: at depth 7"):
        run(fail, 7)
    log = world.ray.log.decode()
    assert 'function.py", line' in log
    assert "in inner" in log
    assert "main.py" not in log


def test_the_same_call_is_the_same_package(run: Callable[..., Any], world: Running):
    run(double, [1])
    world.ray.table.clear()
    world.steps = [world.run]
    run(double, [1])
    assert len(world.ray.submitted) == 2
    assert len(world.ray.packages) == 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (give_an_object, "result['model'][0] is a builtins.object, which JSON cannot hold"),
        (give_too_much, "write it to storage and return where it is"),
    ],
)
def test_a_result_that_cannot_come_back_is_named(run: Callable[..., Any], world: Running, function: Any, said: str):
    with pytest.raises(JobFailed):
        run(function)
    assert said in world.ray.log.decode()


def test_a_function_that_never_returned_has_no_result(run: Callable[..., Any]):
    with pytest.raises(InvalidSpec, match="its log holds no result") as caught:
        run(give_nothing_back)
    assert_one_sentence(caught.value)


def test_a_result_that_was_masked_is_not_taken_for_the_result(run: Callable[..., Any], world: Running):
    def spoil() -> None:
        world.run()
        world.ray.log = world.ray.log.replace(b"[2", b"[*")

    world.steps = [spoil]
    with pytest.raises(InvalidSpec, match="masked"):
        run(double, [1])


def test_arguments_that_cannot_be_sent_are_refused_before_anything_is_made(run: Callable[..., Any], world: Running):
    with pytest.raises(InvalidSpec, match=r"argument numbers\['a'\] is a builtins.set") as caught:
        run(double, kwargs={"numbers": {"a": {1}}})
    assert_one_sentence(caught.value)
    assert world.ray.submitted == []


def countdown(number: int) -> int:
    return countdown(number - 1) if number else 0


def test_a_function_may_call_itself(run: Callable[..., Any]):
    assert run(countdown, 3) == 0


def from_outside() -> str:
    return json.dumps([])


async def later() -> None: ...


@pytest.mark.parametrize(
    ("function", "why"), [(from_outside, "it uses json from outside"), (later, "async"), (lambda: 1, "no source")]
)
def test_what_has_more_than_its_own_source_is_refused_while_the_dag_is_read(function: Any, why: str):
    with pytest.raises(InvalidSpec, match=why) as caught:
        RayTaskOperator(task_id="f", python_callable=function, flight={})
    assert_one_sentence(caught.value)


def test_a_variable_of_the_function_around_is_refused():
    around = 1

    def inner() -> int:
        return around

    with pytest.raises(InvalidSpec, match="it uses around from outside"):
        RayTaskOperator(task_id="f", python_callable=inner, flight={})


def test_airflow_knows_the_decorator_and_a_training_run_as_its_cluster():
    with DAG("d", schedule=None) as dag:
        group = training_run(cluster="gpu-2x1", job={"entrypoint": "x"})

        @task.ray(flight=group, num_gpus=1)
        def evaluate(threshold: float) -> float:
            return threshold

        evaluate(0.5)
    made = dag.get_task("evaluate")
    assert isinstance(made, RayTaskOperator)
    assert made.upstream_task_ids == {"flight.plan", "flight.verify"}
    assert made.downstream_task_ids == {"flight.collect_logs"}
    DagSerialization.from_dict(DagSerialization.to_dict(dag))


def test_after_a_deferral_another_process_reads_the_result(run: Callable[..., Any], world: Running, tmp_path: Path):
    run(double, [1])
    made = flight(archive=(tmp_path / "archive").as_uri()).to_dict()
    fresh = RayTaskOperator(task_id="f", python_callable=double, op_args=[[1]], flight=made)
    context = a_context(task_id="f")
    event = {"result": {"submission_id": world.ray.submitted[0].id, "status": "SUCCEEDED"}}
    assert fresh.resume(context, event) == {"sum": [2], "run_id": "run-1"}
    assert context["ti"].pushed["submission"]["status"] == "SUCCEEDED"


def test_mapped_calls_on_one_cluster_have_submissions_of_their_own(world: Running, tmp_path: Path):
    made = flight(archive=(tmp_path / "archive").as_uri()).to_dict()
    for index in (0, 1):
        operator = RayTaskOperator(
            task_id="f", python_callable=double, op_args=[[index]], flight=made, deferrable=False
        )
        world.steps, world.ray.log = [world.run], b""
        assert operator.execute(a_context(task_id="f", map_index=index))["sum"] == [2 * index]
    assert len({item.id for item in world.ray.submitted}) == 2


def test_a_mapped_task_serialises():
    with DAG("d", schedule=None) as dag:
        plan: Any = training_run(cluster="gpu-2x1", job=None).get_child_by_label("plan")

        @task.ray(flight=plan.output)
        def evaluate(threshold: float) -> float:
            return threshold

        evaluate.expand(threshold=[0.1, 0.2])
    DagSerialization.from_dict(DagSerialization.to_dict(dag))
