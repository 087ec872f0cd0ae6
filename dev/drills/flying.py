"""Flies one cluster's drills: prepares the namespace, takes off, makes the fault, waits for the verdict, lands, counts.

Speaks to Airflow and to the cluster as a person could; nothing of the product is called.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dev.airflow_client import RUN_ENDED, TASK_ENDED, AirflowClient, Run, Task
from dev.airflow_process import wait_until
from dev.cluster import Cluster
from dev.drills import answers, proofs
from dev.drills.observer import Observer
from dev.drills.provoke import Scene
from dev.drills.receiver import Alerts
from dev.drills.results import Answer, Row, judged
from dev.drills.table import Drill
from dev.place import Place
from testbed.faults import Faults
from testbed.faults_proxy import FlakyProxy

INSTANCE = "drills"
_EVERY = 0.5  # seconds between looks at a run
_USUAL_DELAY = 15.0  # seconds: training_run's own delay between tries, and a margin
_LANDING = 150.0  # seconds for teardowns
_PROGRESS = "RAYFLIGHT_PROGRESS"


@dataclass(frozen=True, kw_only=True)
class Hangar:
    """What all drills of one call share. ``namespace``: the only one that may be used, on a real cluster."""

    client: AirflowClient
    place: Place
    observer: Observer
    alerts: Alerts
    faults: Faults | None = None
    flaky: FlakyProxy | None = None
    namespace: str = ""
    shape: str = "testbed-2x1"
    ended: threading.Event = field(default_factory=threading.Event)  # whoever flies has to land


@dataclass
class DrillFlight:
    """One run of the drills' DAG. ``answers`` by the position of the drill."""

    hangar: Hangar
    drills: Sequence[Drill]
    scene: Scene = field(init=False)
    run: Run | None = None
    provoked: dict[int, float] = field(default_factory=dict)  # by the position of the drill
    answers: dict[int, Answer] = field(default_factory=dict)
    _ray_ends: threading.Event = field(default_factory=threading.Event)
    _began: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        named = self.drills[0].shares or self.drills[0].name
        namespace = self.hangar.namespace or f"drill-{named}-{os.getpid()}"
        cluster = Cluster(self.hangar.place.kubeconfig)  # of its own: drills fly in threads
        self.scene = Scene(cluster, namespace, self.hangar.faults, self.hangar.flaky)

    def fly(self) -> list[Row]:
        """From the namespace to the count of what is left."""
        if not self.hangar.namespace:
            self.scene.cluster.create_namespace(self.scene.namespace)
        try:
            with self.scene.keep:
                with self.scene.undo:
                    self._prepare()
                    run = self._take_off()
                    self._wait_for_verdicts(run)
                    self._wait_for_proofs(run)
                self._land(run)
            return self._rows(run)
        finally:
            self._clear_away()

    def _clear_away(self) -> None:
        """Also after a drill that broke: nothing of it may disturb the next."""
        self._ray_ends.set()
        if self.run and self.hangar.client.run_state(self.run) not in RUN_ENDED:
            self.hangar.client.mark_run(self.run)
        if not self.hangar.namespace:
            self.scene.cluster.delete_namespace(self.scene.namespace)

    @property
    def _first(self) -> Drill:
        return self.drills[0]

    def _prepare(self) -> None:
        for drill in self.drills:
            for action in drill.before:
                self.scene.act(action)
        if self._first.when == "take-off":
            self._provoke()

    def _provoke(self) -> None:
        for index, drill in enumerate(self.drills):
            if drill.provoke:
                self.provoked[index] = time.time()
            for action in drill.provoke:
                self.scene.act(action)

    def _take_off(self) -> Run:
        conf = {
            "drills": [drill.name for drill in self.drills],
            "shape": self.hangar.shape,
            "image": self.hangar.place.image,
            "namespace": self.scene.namespace,
            "conn_id": self._first.conn_id,
        }
        for index, drill in enumerate(self.drills):
            if not drill.provoke:
                self.provoked[index] = time.time()  # the fault is in what is asked for
        self.run = self.hangar.client.trigger(answers.DAG, conf)
        return self.run

    def _wait_for_verdicts(self, run: Run) -> None:
        deadline = time.monotonic() + max(drill.seconds for drill in self.drills)
        pending = any(drill.provoke for drill in self.drills) and self._first.when == "training"
        while time.monotonic() < deadline and not self.hangar.ended.is_set():
            ended = self.hangar.client.run_state(run) in RUN_ENDED  # read first: then the tasks are final
            tasks = self.hangar.client.tasks(run)
            self._note(run, tasks)
            if pending and self._trains(run, tasks):
                pending = False
                self._provoke()
            for index in set(range(len(self.drills))) - set(self.answers):
                # What has to end well may be tried again until it does.
                if task := answers.failed_task(tasks, index, for_good=not self.drills[index].cause):
                    self.answers[index] = answers.answer(self.hangar.client, run, task)
            if ended or len(self.answers) == len(self.drills):
                return
            time.sleep(_EVERY)

    def _wait_for_proofs(self, run: Run) -> None:
        for index, drill in enumerate(self.drills):
            answer = self.answers.setdefault(index, Answer())
            if not drill.cause and not answer.error and self.hangar.client.run_state(run) not in RUN_ENDED:
                answer.proof = f"the run did not end within {drill.seconds:.0f} s"
            elif drill.proof:
                trained = self.hangar.client.xcom(run, answers.TRAIN, index)
                answer.proof = proofs.PROOFS[drill.proof](self.hangar.observer, self.scene, trained)
            elif answer.retried and answer.retry_after and answer.retry_after > _USUAL_DELAY:
                answer.proof = self._retried_early(run, index, answer)
            elif not drill.cause and drill.says:
                answer.proof = self._unsaid(run, drill)

    def _unsaid(self, run: Run, drill: Drill) -> str:
        """What a drill that ends well had to say while its cluster waited."""
        said = self.hangar.client.log(run, "flight.wait_ready")
        return "" if drill.says in said else f"wait_ready does not say {drill.says!r}"

    def _retried_early(self, run: Run, index: int, answer: Answer) -> str:
        """Airflow's own delay would be over by then; the one that the diagnosis named is not."""
        time.sleep(max(0.0, (answer.told or 0) + _USUAL_DELAY - time.time()))
        waiting = answers.failed_task(self.hangar.client.tasks(run), index)
        return "" if waiting else f"retried within {_USUAL_DELAY:.0f} s, the diagnosis said {answer.retry_after:.0f} s"

    def _note(self, run: Run, tasks: Sequence[Task]) -> None:
        """What only Airflow knows, for the observer: when a task began; and where to ask Ray."""
        for task in tasks:
            name = task.task_id.removeprefix("flight.")
            if task.started and name not in self._began:
                self._began.add(name)
                self.hangar.observer.note(self.scene.namespace, f"task {name} began", task.started.timestamp())
            if task.task_id == "flight.provision" and task.state == "success" and not self.scene.raycluster:
                planned = self.hangar.client.xcom(run, "flight.provision") or {}
                self.scene.raycluster = planned["cluster"]
                self.hangar.observer.follow_ray(self.scene.namespace, planned["cluster"], self._ray_ends)

    def _trains(self, run: Run, tasks: Sequence[Task]) -> bool:
        """Two reports of progress: every rank works."""
        if not any(task.task_id == answers.TRAIN and task.state == "deferred" for task in tasks):
            return False
        return self.hangar.client.log(run, answers.TRAIN, 0).count(_PROGRESS) >= 2

    def _land(self, run: Run) -> None:
        """The verdict is known: a retry would only cost time, so a run that waits for one is ended by hand."""
        client = self.hangar.client

        def ended() -> bool:
            return all(task.state in TASK_ENDED for task in client.tasks(run))

        if any(answer.retried for answer in self.answers.values()) or not wait_until(ended, 60, every=_EVERY):
            client.mark_run(run)
        if not wait_until(ended, _LANDING, every=_EVERY):
            states = ", ".join(f"{task.name}={task.state}" for task in client.tasks(run))
            self.answers[0].left.append(f"tasks that go on: {states}")

    def _rows(self, run: Run) -> list[Row]:
        left = self.scene.cluster.owned_by(run, INSTANCE)
        if not self.hangar.namespace:
            left = sorted({*left, *self.scene.cluster.of_ray(self.scene.namespace)})
        told = {(post["cause"], post["run"]["map_index"]) for post in self.hangar.alerts.of(run.run_id)}
        rows = []
        for index, drill in enumerate(self.drills):
            answer = self.answers[index]
            answer.left += left
            answer.alerted = any(at in (-1, index) for _, at in told)
            id_ = re.escape(answers.submission(self.hangar.client, run, index))
            sight = drill.sign and self.hangar.observer.first(
                drill.sign.replace("{submission}", id_), self.scene.namespace, self.provoked.get(index, 0.0)
            )
            sign = (sight.at, sight.text) if sight else None
            rows.append(judged(drill, answer, provoked=self.provoked.get(index), sign=sign))
        return rows
