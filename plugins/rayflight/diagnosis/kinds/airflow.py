"""Kinds of whoever flies the cluster, read from a task's log."""

from __future__ import annotations

from rayflight.diagnosis.kind import kinds
from rayflight.findings import Decision, Layer

_FAIL, _AFTER = Decision.FAIL, Decision.RETRY_AFTER

KINDS = kinds(
    Layer.AIRFLOW,
    (
        ("airflow-state-changed", "Somebody ended the task in Airflow", _FAIL,
         "`has been externally set to`, `shouldn't be running anymore`",
         "a person marked or cleared it, or the run was ended",
         "see who did it (the audit log); clear the task to train again"),
        ("airflow-heartbeat-lost", "Airflow lost the task's worker", _AFTER,
         "`without a heartbeat`, `heartbeat timeout`",
         "the Airflow worker died or was starved; the training itself may be well",
         "see what happened to the Airflow worker; a retry adopts the training that runs"),
        ("airflow-run-timed-out", "The run's own time was over", _FAIL,
         "`dagrun_timeout`", "the dag run was longer than it may: its teardowns are skipped",
         "raise dagrun_timeout; the janitor removes the cluster"),
        ("airflow-task-timed-out", "The task's own time was over", _FAIL,
         "AirflowTaskTimeout, TaskDeferralTimeout", "execution_timeout or the deferral's time-out",
         "raise the task's time-out"),
        ("airflow-lacks-right", "Airflow's service account lacks a right", _FAIL,
         "`forbidden: User \"system:serviceaccount:...\" cannot ... resource` in the task's log",
         "its Role lacks the verb; a missing pods/log is not meant, it costs logs only",
         "an administrator grants the right; docs/permissions.md lists all of them"),
    ),
)  # fmt: skip
