"""docs/migrating.md is true: its examples load and fly, and nothing that people used is left out."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from airflow.serialization.serialized_objects import DagSerialization

from rayflight.airflow import PlanFlight, SubmitRayJob, forms
from rayflight.specs import JobSpec, load_cluster
from tests.airflow.test_usage_document import dags_of
from tests.unit.docs.documents import DOCS, blocks, tables

TEXT = (DOCS / "migrating.md").read_text()
# Parameters of astro-provider-ray 0.4.0's SubmitRayJob, the widest of its operators.
ASTRO = [
    "conn_id", "entrypoint", "runtime_env", "num_cpus", "num_gpus", "memory", "resources", "ray_cluster_yaml",
    "kuberay_version", "update_if_exists", "gpu_device_plugin_yaml", "fetch_logs", "wait_for_completion",
    "job_timeout_seconds", "poll_interval", "xcom_task_key",
]  # fmt: skip
# Fields of RayJob.spec in the CRD of KubeRay 1.6.0.
RAYJOB = [
    "activeDeadlineSeconds", "backoffLimit", "clusterSelector", "deletionStrategy", "entrypoint",
    "entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "jobId", "managedBy", "metadata",
    "preRunningDeadlineSeconds", "rayClusterSpec", "runtimeEnvYAML", "shutdownAfterJobFinishes",
    "submissionMode", "submitterConfig", "submitterPodTemplate", "suspend", "ttlSecondsAfterFinished",
]  # fmt: skip


@pytest.mark.parametrize("source", blocks("migrating.md", "python"))
def test_an_example_is_a_dag_whose_flight_can_be_planned(source: str):
    (dag,) = dags_of(source)
    DagSerialization.from_dict(DagSerialization.to_dict(dag))
    (plan,) = (task for task in dag.tasks if isinstance(task, PlanFlight) and task.cluster is not None)
    spec = load_cluster(plan.cluster)
    assert spec.gpus == 2
    for task in dag.tasks:
        if isinstance(task, (PlanFlight, SubmitRayJob)) and task.job:
            JobSpec.parse(forms.job(task.job)).require_files()


def one(language: str) -> dict[str, Any]:
    (block,) = blocks("migrating.md", language)
    return dict(yaml.safe_load(block))


def test_the_shape_holds_the_manifests_cluster_as_it_is():
    assert one("yaml shape")["raw_manifest"]["spec"] == one("yaml rayjob")["spec"]["rayClusterSpec"]
    load_cluster(one("yaml shape"))


def test_the_job_says_what_the_manifest_said():
    before, after = one("yaml rayjob")["spec"], JobSpec.parse(one("yaml job"))
    assert after.entrypoint == before["entrypoint"]
    assert after.runtime_env == yaml.safe_load(before["runtimeEnvYAML"])
    assert after.timeout is not None
    assert after.timeout.total_seconds() == before["activeDeadlineSeconds"]


@pytest.mark.parametrize("name", ASTRO)
def test_every_parameter_of_the_other_provider_is_named(name: str):
    cells = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("|")]
    assert any(f"`{name}`" in cell for cell in cells)


def test_every_field_of_a_rayjob_is_named():
    assert sorted(tables("migrating.md")["RayJob"]) == sorted(RAYJOB)
