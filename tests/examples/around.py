"""The operator, RayJobs, and whoever flies the cluster."""

from __future__ import annotations

from dataclasses import replace

from rayflight.snapshot.model import Condition, Group
from rayflight.snapshot.surroundings import RayJob, Workload
from tests.examples.shape import PODS, Example, second, show
from tests.made_up import (
    NAME,
    at,
    cluster,
    ended,
    event,
    head,
    job,
    ray,
    with_container,
    worker,
)

LATE = "2026-12-01T10:10:00.000Z"
UNSCHEDULED = Condition(
    type="PodScheduled", status="False", reason="Unschedulable", message="1 Insufficient cpu", since=at(30)
)
BROKEN = "The RayJob submitter finished at x but the ray job did not reach terminal state within 30s"
DIED = "Deleted head Pod team-a/x; Pod status: Failed; ... &ContainerStateTerminated{ExitCode:127,Signal:0}"


def rayjob(**changes):
    return (
        RayJob(
            **{"name": "rj", "uid": "rj-uid", "cluster": NAME, "submission": "rj-1", "created_at": at(0), **changes}
        ),
    )


def flown(line):
    return show(logs={"airflow-train": f"[2026-12-01T10:00:30.000+00:00] {line}"})


def operator_says(line):
    return show(logs={"kuberay-operator-x/kuberay-operator": line})


EXAMPLES: dict[str, Example] = {
    "cluster-spec-invalid": show(
        cluster=cluster(has_status=False, observed_generation=0),
        pods=(),
        ray=None,
        events=(event("InvalidRayClusterSpec", "The RayCluster spec is invalid"),),
    ),
    "min-above-max": show(
        "minReplicas 3", cluster=replace(cluster(), groups=(Group(name="gpu", desired=2, minimum=3, maximum=2),))
    ),
    "group-name-twice": show("called gpu", cluster=replace(cluster(), groups=(*cluster(1).groups, *cluster(1).groups))),
    "operator-absent": show(cluster=cluster(has_status=False), pods=(), ray=None),
    "operator-standing-still": show(
        pods=(head(), worker(1)),
        events=(event("Killing", "Stopping container", about=worker(2), type="Normal", last_at=at(40)),),
    ),
    "operator-lacks-right": operator_says(
        'rayjobs.ray.io is forbidden: User "system:serviceaccount:ns:kuberay-operator" cannot list resource "rayjobs" '
        "in API group "
        '"ray.io" at the cluster scope'
    ),
    "operator-annotation-outdated": operator_says('strconv.Atoi: parsing "": invalid syntax'),
    "two-head-pods": show("2 head pods", pods=(*PODS, head(name="flight-head-b", uid="b"))),
    "status-is-stale": show(
        "is old",
        cluster=cluster(state="ready"),
        pods=(head(node="", phase="Pending", conditions=(UNSCHEDULED,)), worker(1)),
        ray=None,
    ),
    "head-recreated-in-a-loop": show(
        "died 5 times", "exit code 127", ray=None, events=(event("DeletedHeadPod", DIED, count=5),)
    ),
    "failed-pod-not-replaced": show(
        "before 1.2",
        taken_at=LATE,
        pods=second(
            phase="Failed", reason="Evicted", conditions=(Condition(type="Ready", status="False", since=at(0)),)
        ),
    ),
    "crd-lacks-num-of-hosts": show(
        "asks for 2",
        pods=(head(),),
        cluster=replace(cluster(), status_desired=0, groups=(Group(name="gpu", desired=2, replicas=2),)),
    ),
    "rayjob-validation-failed": show(
        "held by Workload w",
        rayjobs=rayjob(deployment="ValidationFailed", message="name 49 > 47"),
        workloads=(Workload(name="w", owner="rj-uid", conditions=(Condition(type="Admitted", status="True"),)),),
    ),
    "rayjob-submission-failed": show(
        "became ready 30 s after",
        rayjobs=rayjob(deployment="Failed", reason="SubmissionFailed", ended_at=at(0)),
        pods=(head(conditions=(Condition(type="Ready", status="True", since=at(30)),)), worker(1), worker(2)),
    ),
    "rayjob-log-stream-broke": show(
        "not the end of a job", rayjobs=rayjob(deployment="Failed", status="FAILED", message=BROKEN)
    ),
    "rayjob-deadline-exceeded": show(rayjobs=rayjob(deployment="Failed", status="FAILED", reason="DeadlineExceeded")),
    "rayjob-failed-cluster-left": show(
        "still there", rayjobs=rayjob(deployment="Failed", reason="AppFailed"), taken_at=LATE
    ),
    "rayjob-resubmitted": show(
        "began anew",
        rayjobs=rayjob(mode="HTTPMode"),
        events=(event("DeletedHeadPod", "Deleted head Pod", last_at=at(30)),),
        ray=ray(*PODS, jobs=(job(id="rj-1", started_at=at(50)),)),
    ),
    "rayjob-lost-with-head": show("knows no submission", rayjobs=rayjob(status="RUNNING")),
    "airflow-state-changed": flown("State of this instance has been externally set to failed. Terminating instance."),
    "airflow-heartbeat-lost": flown("Detected a task instance without a heartbeat: x"),
    "airflow-run-timed-out": flown("Run x of dag has timed-out (dagrun_timeout)"),
    "airflow-task-timed-out": flown("airflow.sdk.exceptions.AirflowTaskTimeout: Timeout, PID: 1"),
    "airflow-lacks-right": flown(
        'jobs.batch is forbidden: User "system:serviceaccount:airflow:w" cannot create resource "jobs"'
    ),
    "image-without-ray": show(
        "has no `ray`",
        pods=(head(), worker(1), with_container(worker(2), "ray-worker", restarts=2, ready=False, last=ended(127))),
        logs={f"{worker(2).name}/ray-worker/previous": "/bin/bash: line 1: ray: command not found"},
    ),
    "crash-loop": show(
        "exit code 2",
        pods=(head(), worker(1), with_container(worker(2), "ray-worker", restarts=3, ready=False, last=ended(2))),
    ),
    "container-cannot-start": show(
        "no such file",
        pods=(
            head(),
            worker(1),
            with_container(
                worker(2),
                "ray-worker",
                state="waiting",
                reason="RunContainerError",
                message="exec: no such file",
                ready=False,
            ),
        ),
    ),
}
