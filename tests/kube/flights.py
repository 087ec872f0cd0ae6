"""Runs of the real DAGs on the real cluster, as the tests speak of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dev.airflow_client import RUN_ENDED, TASK_ENDED, AirflowClient, Run, Task
from dev.airflow_instance import Airflow
from dev.airflow_process import wait_until
from dev.cluster import RAY, Cluster, Json, warnings
from dev.flight_view import GROUP
from dev.place import Place
from rayflight.labels import RUN, digest

PROGRESS = "RAYFLIGHT_PROGRESS"


@dataclass
class Flights:
    """Starts, watches and judges the runs of one test module."""

    airflow: Airflow
    cluster: Cluster
    place: Place
    namespace: str
    instance: str
    runs: list[Run] = field(default_factory=list)

    @property
    def client(self) -> AirflowClient:
        return self.airflow.client

    def take_off(self, dag_id: str = "train_ddp", **conf: Any) -> Run:
        """Trigger a run here: one worker pod, no verification, unless `conf` says otherwise."""
        small = {"image": self.place.image, "namespace": self.namespace, "workers": 1, "verify": False}
        run = self.client.trigger(dag_id, small | conf)
        self.runs.append(run)
        return run

    def wait_training(self, run: Run, seconds: float = 180, *, epochs: int = 1, try_number: int = 1) -> Task:
        """Return when the task log of `train` shows that so many epochs are trained."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            task = self.client.wait_for_task(
                run, f"{GROUP}.train", ["deferred", "running"], deadline - time.monotonic()
            )
            if task.try_number >= try_number and self.progress(run, task.try_number) >= epochs:
                return task
            time.sleep(1)
        raise AssertionError(f"run {run.run_id} did not train {epochs} epochs in {seconds:.0f} s")

    def progress(self, run: Run, try_number: int = 1) -> int:
        """How many progress reports stand in the task log."""
        try:
            return self.log(run, "train", try_number).count(PROGRESS)
        except RuntimeError:
            return 0  # no log yet

    def log(self, run: Run, task: str, try_number: int = 1) -> str:
        return self.client.log(run, f"{GROUP}.{task}", try_number=try_number)

    def xcom(self, run: Run, task: str) -> Any:
        return self.client.xcom(run, f"{GROUP}.{task}")

    def archived_driver_log(self, run: Run) -> str:
        """The driver log as the archive has it, its segments joined."""
        folder = Path(urlsplit(self.xcom(run, "plan")["archive"]).path)
        return b"".join(file.read_bytes() for file in sorted(folder.rglob("driver/*/*")) if file.is_file()).decode()

    def archived_timeline(self, run: Run) -> str:
        """The timelines of the run's clusters, as the archive has them for people."""
        folder = Path(urlsplit(self.xcom(run, "plan")["archive"]).path)
        return "\n".join(file.read_text() for file in sorted(folder.rglob("timeline.txt")))

    def make_claim(self, name: str = "checkpoints") -> str:
        """Shared storage for checkpoints."""
        spec = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "rayflight-shared",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        self.cluster.request("POST", path, {"metadata": {"name": name}, "spec": spec})
        return name

    def task(self, run: Run, task: str) -> Task:
        return self.client.task(run, f"{GROUP}.{task}")

    def failure(self, run: Run, task: str) -> str:
        return self.client.failure(run, self.task(run, task))

    def land(self, run: Run, seconds: float = 300) -> str:
        """The final state of the run, once every task has ended too: a run marked by hand ends before its teardown."""
        self.client.wait_for_run(run, seconds)
        assert wait_until(lambda: self._all_ended(run), 90, every=0.5), f"tasks go on: {self._states(run)}"
        return self.client.run_state(run)

    def rayclusters(self, run: Run) -> list[Json]:
        """The RayClusters of the run, oldest attempt first."""
        selector = f"{RUN}={digest(self.instance, run.dag_id, run.run_id)}"
        found = self.cluster.items(f"{RAY}/namespaces/{self.namespace}/rayclusters", selector)
        return sorted(found, key=lambda item: str(item["metadata"]["creationTimestamp"]))

    def pods(self, run: Run, kind: str) -> list[Json]:
        """The `head` or `worker` pods of the run."""
        selector = f"{RUN}={digest(self.instance, run.dag_id, run.run_id)},ray.io/node-type={kind}"
        return self.cluster.pods(self.namespace, selector)

    def delete_pod(self, pod: Json) -> None:
        """As an eviction does, but at once."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
        self.cluster.delete(path, gracePeriodSeconds=0)

    def assert_nothing_left(self, *runs: Run) -> None:
        """No object anywhere that a run owns, and no Ray pod or service here that nobody else owns."""
        for run in runs:
            assert self.cluster.owned_by(run, self.instance) == []
        if all(self.client.run_state(run) in RUN_ENDED for run in self.runs):
            assert self.cluster.of_ray(self.namespace) == []

    def end_all(self) -> None:
        """Mark what still flies as failed and wait for its teardown: a failed test must not disturb the others."""
        for run in self.runs:
            if self.client.run_state(run) not in RUN_ENDED:
                self.client.mark_run(run)
            wait_until(lambda run=run: self._all_ended(run), 60, every=0.5)  # type: ignore[misc]

    def story(self) -> str:
        """What the runs did and what Kubernetes warned of."""
        lines: list[str] = []
        for run in self.runs:
            lines.append(f"run {run.run_id} of {run.dag_id}: {self.client.run_state(run)}: {self._states(run)}")
            failed = [task for task in self.client.tasks(run) if task.state in ("failed", "up_for_retry")]
            lines += [f"  {task.name}: {self.client.failure(run, task)}" for task in failed]
        return "\n".join([*lines, *warnings(self.cluster, self.namespace)])

    def _all_ended(self, run: Run) -> bool:
        return all(task.state in TASK_ENDED for task in self.client.tasks(run))

    def _states(self, run: Run) -> str:
        return ", ".join(f"{task.name}={task.state} (try {task.try_number})" for task in self.client.tasks(run))
