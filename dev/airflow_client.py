"""What the demo, the benchmarks and the tests ask of a running Airflow, over its public REST API only."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

RUN_ENDED = frozenset({"success", "failed"})
# Fields of a log event that say only which task it belongs to, or where in the code it was written.
_LOG_NOISE = frozenset(
    {"event", "timestamp", "level", "logger", "filename", "lineno", "loc", "ti_id", "dag_id", "run_id"}
)
_LOG_NOISE |= {"task_id", "map_index", "try_number"}
TASK_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


@dataclass(frozen=True, slots=True)
class Run:
    """One dag run, by name."""

    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        """Its address below the API's root."""
        return f"/api/v2/dags/{self.dag_id}/dagRuns/{self.run_id}"


@dataclass(frozen=True, slots=True)
class Task:
    """One task instance as Airflow says it is now."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    started: datetime | None
    ended: datetime | None
    triggerer_job: int | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """From the API's answer."""
        return cls(
            task_id=data["task_id"],
            map_index=data["map_index"],
            state=data["state"],
            try_number=data["try_number"],
            started=_when(data["start_date"]),
            ended=_when(data["end_date"]),
            triggerer_job=(data.get("triggerer_job") or {}).get("id"),
        )

    @property
    def name(self) -> str:
        """Task id, with the map index where there is one."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"

    @property
    def seconds(self) -> float | None:
        """From first start to end, deferred time included."""
        return (self.ended - self.started).total_seconds() if self.started and self.ended else None


@dataclass(frozen=True, slots=True)
class Change:
    """A task entered another state; ``task`` None: the run itself did."""

    at: float  # time.time()
    task: Task | None
    state: str | None


class AirflowClient:
    """A signed-in user of one Airflow."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._user, self._password = user, password
        # Nothing of ours stands behind a proxy.
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def sign_in(self) -> None:
        """Fetch a token; it is sent with every later request."""
        answer = self._http.post("/auth/token", json={"username": self._user, "password": self._password})
        answer.raise_for_status()
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def health(self) -> dict[str, str]:
        """Component -> status; empty while the API server does not answer."""
        try:
            answer = self._http.get("/api/v2/monitor/health", timeout=5)
            answer.raise_for_status()
        except httpx.HTTPError:
            return {}
        return {name: str(part.get("status")) for name, part in answer.json().items()}

    def connection(self, conn_id: str) -> dict[str, Any] | None:
        """As the UI shows it, of those in the database."""
        answer = self._http.get(f"/api/v2/connections/{conn_id}")
        return None if answer.status_code == 404 else _checked(answer)

    def add_connection(self, conn_id: str, *, conn_type: str, extra: str) -> None:
        """A new one, into the database; raises where one of that id is there."""
        self._send("POST", "/api/v2/connections", {"connection_id": conn_id, "conn_type": conn_type, "extra": extra})

    def change_connection(self, conn_id: str, there: Mapping[str, Any], *, extra: str) -> None:
        """Its extras, and nothing else of it."""
        body = {"connection_id": conn_id, "conn_type": there["conn_type"], "extra": extra}
        self._send("PATCH", f"/api/v2/connections/{conn_id}?update_mask=extra", body)

    def living_triggerers(self) -> int:
        """How many triggerers have a fresh heartbeat."""
        query = {"job_type": "TriggererJob", "job_state": "running", "is_alive": True}
        return int(self._get("/api/v2/jobs", query)["total_entries"])

    def wait_for_dag(self, dag_id: str, seconds: float = 60) -> None:
        """Return when the DAG is known; raise with the import errors when it does not appear."""
        deadline = time.monotonic() + seconds
        while self._http.get(f"/api/v2/dags/{dag_id}").status_code != 200:
            errors = self._get("/api/v2/importErrors")["import_errors"]
            if errors or time.monotonic() > deadline:
                reasons = "\n".join(f"{e['filename']}: {e['stack_trace']}" for e in errors) or "not found in time"
                raise RuntimeError(f"DAG {dag_id} does not appear: {reasons}")
            time.sleep(0.5)

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run it."""
        self._send("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None, run_id: str | None = None) -> Run:
        """Unpause the DAG and start a run."""
        self.unpause(dag_id)
        body: dict[str, Any] = {"logical_date": None, "conf": dict(conf or {})}
        if run_id:
            body["dag_run_id"] = run_id
        answer = self._send_until_unlocked(f"/api/v2/dags/{dag_id}/dagRuns", body)
        return Run(dag_id, answer["dag_run_id"])

    def runs(self, dag_id: str) -> set[str]:
        """Ids of the runs that Airflow remembers, the latest hundred."""
        return {run["dag_run_id"] for run in self._get(f"/api/v2/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]}

    def run_state(self, run: Run) -> str:
        """queued, running, success or failed."""
        return str(self.run(run)["state"])

    def run(self, run: Run) -> dict[str, Any]:
        """The run as the API shows it."""
        return self._get(run.path)

    def tasks(self, run: Run) -> list[Task]:
        """All task instances of the run."""
        return [Task.from_json(t) for t in self._get(f"{run.path}/taskInstances?limit=1000")["task_instances"]]

    def task(self, run: Run, task_id: str, map_index: int = -1) -> Task:
        """One task instance."""
        for task in self.tasks(run):
            if (task.task_id, task.map_index) == (task_id, map_index):
                return task
        raise LookupError(f"run {run.run_id} of {run.dag_id} has no task {task_id} with map index {map_index}")

    def task_data(self, run: Run, task_id: str) -> dict[str, Any]:
        """A task instance as the API shows it, rendered fields included."""
        return self._get(f"{run.path}/taskInstances/{task_id}")

    def links(self, run: Run, task_id: str) -> dict[str, str]:
        """The extra links of a task that lead somewhere: name -> URL."""
        links = self._get(f"{run.path}/taskInstances/{task_id}/links")["extra_links"]
        return {name: url for name, url in links.items() if url}

    def xcom(self, run: Run, task_id: str, map_index: int = -1, key: str = "return_value") -> Any:
        """The value, or None when there is none."""
        path = f"{run.path}/taskInstances/{task_id}/xcomEntries/{key}"
        answer = self._http.get(path, params={"map_index": map_index})
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.json()["value"]

    def log(self, run: Run, task_id: str, map_index: int = -1, try_number: int = 1) -> str:
        """The task log as text, one line per event, fields as key=value."""
        return "\n".join(_log_line(event) for event in self.log_events(run, task_id, map_index, try_number))

    def log_times(self, run: Run, task_id: str, try_number: int = 1) -> list[tuple[datetime, str]]:
        """Each event of the task log with the time it was written at."""
        events = [event for event in self.log_events(run, task_id, -1, try_number) if isinstance(event, Mapping)]
        stamped = ((_when(event.get("timestamp")), str(event["event"])) for event in events)
        return [(at, text) for at, text in stamped if at is not None]

    def failure(self, run: Run, task: Task) -> str:
        """What the exception that ended this try said; the chain of its causes is left to the log."""
        for event in reversed(self.log_events(run, task.task_id, task.map_index, max(task.try_number, 1))):
            if not isinstance(event, Mapping):
                continue
            if event["event"].startswith("Trigger failed"):  # the trigger itself broke: the task knows only that it did
                return str(event["event"].strip().splitlines()[-1])
            details = event.get("error_detail")
            if details and details[0]["exc_type"] != "TaskDeferralError":
                return f"{details[0]['exc_type']}: {details[0]['exc_value']}"
        return "the log holds no exception"

    def log_events(self, run: Run, task_id: str, map_index: int, try_number: int) -> list[Any]:
        """The task log as Airflow keeps it: mappings with ``event``, ``timestamp`` and more."""
        events: list[Any] = []
        token: str | None = None
        seen: set[str] = set()
        while True:
            query = {"map_index": map_index, "full_content": True} | ({"token": token} if token else {})
            answer = self._get(f"{run.path}/taskInstances/{task_id}/logs/{try_number}", query)
            events += answer["content"]
            token = answer.get("continuation_token")
            if token is None or token in seen or not answer["content"]:
                return events
            seen.add(token)

    def mark_run(self, run: Run, state: str = "failed") -> None:
        """As a person does by hand."""
        self._send("PATCH", run.path, {"state": state})

    def mark_task(self, run: Run, task_id: str, state: str = "failed", map_index: int = -1) -> None:
        """As a person does by hand."""
        suffix = f"/{map_index}" if map_index >= 0 else ""
        self._send("PATCH", f"{run.path}/taskInstances/{task_id}{suffix}", {"new_state": state})

    def clear(self, run: Run, task_ids: Sequence[str], *, downstream: bool = True) -> list[str]:
        """Clear task instances whatever their state, as the UI does; returns the names of all that were cleared."""
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run.run_id,
            "task_ids": list(task_ids),
            "include_downstream": downstream,
        }
        answer = self._send("POST", f"/api/v2/dags/{run.dag_id}/clearTaskInstances", body)
        return sorted({t["task_id"] for t in answer["task_instances"]})

    def test_connection(self, connection: Mapping[str, str]) -> dict[str, Any]:
        """What the Test button of a connection's form answers."""
        return self._send("POST", "/api/v2/connections/test", connection)

    def delete_run(self, run: Run) -> None:
        """Remove the run from Airflow's memory."""
        self._send("DELETE", run.path)

    def wait_for_task(self, run: Run, task_id: str, states: Sequence[str], seconds: float, map_index: int = -1) -> Task:
        """Return the task once it is in one of the states; raise when it, or the run, ended otherwise or in time."""
        deadline = time.monotonic() + seconds
        while True:
            run_state, task = self.run_state(run), self.task(run, task_id, map_index)
            if task.state in states:
                return task
            if task.state in TASK_ENDED or run_state in RUN_ENDED or time.monotonic() > deadline:
                raise AssertionError(
                    f"{task.name} of run {run.run_id} is {task.state} (try {task.try_number}, run {run_state}); "
                    f"expected {' or '.join(states)} within {seconds:.0f} s"
                )
            time.sleep(0.5)

    def wait_for_run(self, run: Run, seconds: float) -> str:
        """The final state of the run; raise when it does not end in time."""
        deadline = time.monotonic() + seconds
        while (state := self.run_state(run)) not in RUN_ENDED:
            if time.monotonic() > deadline:
                states = ", ".join(f"{task.name}={task.state}" for task in self.tasks(run))
                raise AssertionError(f"run {run.run_id} is still {state} after {seconds:.0f} s: {states}")
            time.sleep(0.5)
        return state

    def watch(
        self, run: Run, every: float = 0.5, idle: Callable[[Sequence[Task]], None] | None = None
    ) -> Iterator[Change]:
        """Every change of state of the run and its tasks, until the run has ended.

        ``idle`` is called about every two seconds with the tasks that wait in a triggerer.
        """
        idle_at = time.monotonic()
        seen: dict[str, tuple[str | None, int]] = {}
        last_run_state = None
        while True:
            state = self.run_state(run)  # read first: when it has ended, the tasks read next are final
            tasks = sorted(self.tasks(run), key=lambda t: (t.started.timestamp() if t.started else math.inf, t.name))
            for task in tasks:
                now = (task.state, task.try_number)
                if seen.get(task.name) != now and task.state is not None:
                    yield Change(time.time(), task, task.state)
                seen[task.name] = now
            if state != last_run_state:
                yield Change(time.time(), None, state)
                last_run_state = state
            if state in RUN_ENDED:
                return
            if idle and time.monotonic() - idle_at > 2:
                idle([task for task in tasks if task.state == "deferred"])
                idle_at = time.monotonic()
            time.sleep(every)

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return _checked(self._http.get(path, params=query))

    def _send_until_unlocked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """SQLite may be locked for longer than Airflow waits; nothing was written then."""
        for pause in (1.0, 5.0, 15.0):
            answer = self._http.request("POST", path, json=body)
            if answer.status_code != 500 or "Database error" not in answer.text:
                return _checked(answer)
            time.sleep(pause)
        return self._send("POST", path, body)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return _checked(self._http.request(method, path, json=body))


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        request = answer.request
        raise RuntimeError(f"{request.method} {request.url.path} answered {answer.status_code}: {answer.text[:500]}")
    return dict(answer.json()) if answer.content else {}


def _log_line(event: Any) -> str:
    if not isinstance(event, Mapping):
        return str(event)
    fields = " ".join(f"{key}={value}" for key, value in event.items() if key not in _LOG_NOISE)
    return f"{event.get('event', '')} {fields}".rstrip()


def _when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
