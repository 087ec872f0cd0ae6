"""``@task.ray``: a function and its arguments are sent to a flight's cluster and run there; its result goes to XCom.

A SubmitRayJob whose script is made from the function's source (decision 19): submitted once, followed, explained.
"""

from __future__ import annotations

import dis
import inspect
import json
import shlex
import tempfile
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
from airflow.sdk.definitions._internal.decorators import remove_task_decorator
from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

from rayflight.airflow import shipped
from rayflight.airflow.operators.submit import SubmitRayJob
from rayflight.errors import InvalidSpec

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator

    from rayflight.backends.base import ClusterRef
    from rayflight.lifecycle.flight import Flight
    from rayflight.specs import JobSpec

_FOLDER = "_rayflight_task"


class RayTaskOperator(DecoratedOperator, SubmitRayJob):
    """Runs ``python_callable`` on the cluster of ``flight``: what PlanFlight returned, or a ``training_run``.

    ``num_cpus``, ``num_gpus`` and ``memory`` are reserved for the function itself, which then runs where they are; what
    it starts with Ray reserves its own. ``working_dir`` is sent along, so that the function can import from it.
    """

    custom_operator_name = "@task.ray"
    template_fields: tuple[str, ...] = (*SubmitRayJob.template_fields, "op_args", "op_kwargs")
    template_fields_renderers = {"op_args": "py", "op_kwargs": "py"}  # noqa: RUF012 - as its base declares it
    shallow_copy_attrs: Sequence[str] = ("python_callable",)

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        flight: Any,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: str | None = None,
        working_dir: str | Path | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        python: str = "python3",
        **kwargs: Any,
    ) -> None:
        _refuse_unsendable(python_callable)
        given = {
            "entrypoint": f"{shlex.quote(python)} {_FOLDER}/main.py",
            "entrypoint_num_cpus": num_cpus,
            "entrypoint_num_gpus": num_gpus,
            "entrypoint_memory": memory,
            "working_dir": None if working_dir is None else str(working_dir),
            "runtime_env": dict(runtime_env or {}),
            "env": dict(env or {}),
        }
        group = flight if isinstance(flight, TaskGroup) else None
        if group is not None and kwargs.get("_airflow_mapped_validation_only"):
            step = "give the output of its plan as flight=, and order the task between verify and collect_logs"
            raise InvalidSpec("A mapped task cannot wire itself into", which=group.group_id or "", next_step=step)
        job = {key: value for key, value in given.items() if value not in (None, {})}
        source = flight if group is None else _task(group, "plan").output
        super().__init__(python_callable=python_callable, flight=source, job=job, **kwargs)
        self._folder: Path | None = None
        if group is not None:
            _task(group, "verify") >> self >> _task(group, "collect_logs")

    def execute(self, context: Context) -> Any:
        """Refuse what cannot be sent before a cluster is made for it."""
        self._call(context)
        return super().execute(context)

    def the_job(self, flight: Flight) -> JobSpec:
        """The job with the folder that is sent, once it is written."""
        job = super().the_job(flight)
        if "working_dir" in job.runtime_env:
            why = "runtime_env has a working_dir of its own, and the function is sent as one"
            raise InvalidSpec(f"Refused {_named(self.python_callable)}", why=why, next_step="give it as working_dir=")
        return job if self._folder is None else job.model_copy(update={"working_dir": self._folder})

    def _train(self, context: Context, flight: Flight, ref: ClusterRef) -> Any:
        beside = super().the_job(flight).working_dir
        with tempfile.TemporaryDirectory(prefix="rayflight-") as folder:
            for entry in beside.iterdir() if beside else ():
                (Path(folder) / entry.name).symlink_to(entry.resolve())
            self._write(Path(folder) / _FOLDER, context)
            self._folder = Path(folder)
            try:
                return super()._train(context, flight, ref)
            finally:
                self._folder = None

    def _write(self, folder: Path, context: Context) -> None:
        folder.mkdir()
        (folder / "main.py").write_text(Path(shipped.__file__).read_text())
        (folder / shipped.FUNCTION).write_text(source(self.python_callable, self.custom_operator_name))
        (folder / shipped.CALL).write_text(self._call(context))

    def _call(self, context: Context) -> str:
        """The call as JSON; parameters named like something of Airflow's context get that. Raises InvalidSpec."""
        arguments, args = {**self.op_kwargs}, list(self.op_args)
        parameters = list(inspect.signature(self.python_callable).parameters)[len(args) :]
        for name in parameters:
            if name in KNOWN_CONTEXT_KEYS and name not in arguments and name in context:
                found: Any = context[name]  # type: ignore[literal-required]
                arguments[name] = dict(found) if isinstance(found, Mapping) else found
        try:
            for index, value in enumerate(args):
                shipped.to_json(value, f"argument {index + 1}")
            for name, value in arguments.items():
                shipped.to_json(value, f"argument {name}")
        except shipped.NotJson as error:
            step = "give text, numbers, lists or mappings, or the path of a file that the cluster reaches"
            which = _named(self.python_callable)
            raise InvalidSpec("Cannot send the arguments of", which=which, why=str(error), next_step=step) from None
        return json.dumps({"name": self.python_callable.__name__, "args": args, "kwargs": arguments})

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """What the function returned; how the submission went is kept under the key ``submission``."""
        from rayflight.archive import SegmentedLog

        context["ti"].xcom_push(key="submission", value=result)
        flight, submission = self.the_flight(), result["submission_id"]
        log = self.run_async(
            lambda tools: SegmentedLog(tools.archive, f"{flight.folder}/driver/{submission}").read_all(), flight
        )
        try:
            return shipped.returned(log)
        except (LookupError, ValueError) as error:
            step = "let the function return, and return no secret"
            which = f"of {_named(self.python_callable)} ({submission})"
            raise InvalidSpec("No result", which=which, why=str(error), next_step=step) from None


def ray_task(
    python_callable: Callable[..., Any] | None = None, *, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """``@task.ray(flight=…, num_gpus=…)``: the parameters are those of RayTaskOperator and of SubmitRayJob."""
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=RayTaskOperator,
        **kwargs,
    )


def source(function: Callable[..., Any], decorator: str) -> str:
    """The function as a file of its own, without the decorators of tasks."""
    text = textwrap.dedent(inspect.getsource(function))
    # Annotations may name what only the DAG file imports.
    return "from __future__ import annotations\n\n" + remove_task_decorator(text, decorator)


def _task(group: TaskGroup, label: str) -> Any:
    try:
        return group.get_child_by_label(label)
    except (KeyError, ValueError):
        why = f"it has no task {label!r}"
        step = "give a training_run, or the output of PlanFlight or CreateRayCluster"
        raise InvalidSpec("No flight", which=f"group {group.group_id}", why=why, next_step=step) from None


def _refuse_unsendable(function: Callable[..., Any]) -> None:
    """While the DAG file is read: only the function's own source goes to the cluster."""
    which = _named(function)
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        step = "decorate a function that is written with def"
        raise InvalidSpec("Cannot send", which=which, why="it has no source of its own", next_step=step)
    if inspect.iscoroutinefunction(function):
        step = "write it with def, and call asyncio.run in it"
        raise InvalidSpec("Cannot send", which=which, why="it is async", next_step=step)
    used = {*function.__code__.co_freevars, *_globals(function.__code__) & set(function.__globals__)}
    if foreign := used - {function.__name__}:
        why = f"it uses {', '.join(sorted(foreign))} from outside itself"
        step = "import inside the function, and pass values as arguments"
        raise InvalidSpec("Cannot send", which=which, why=why, next_step=step)


def _globals(code: CodeType) -> set[str]:
    inner: Collection[CodeType] = [item for item in code.co_consts if isinstance(item, CodeType)]
    return set(_loaded(code)).union(*(_globals(item) for item in inner))


def _loaded(code: CodeType) -> Iterator[str]:
    return (str(item.argval) for item in dis.get_instructions(code) if item.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


def _named(function: Callable[..., Any]) -> str:
    return f"function {getattr(function, '__name__', repr(function))}"
