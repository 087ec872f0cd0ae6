"""Bad input, as a DAG author meets it: the task ends in one sentence, before it has touched archive or cluster."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rayflight.airflow import CreateRayCluster, PlanFlight, SubmitRayJob
from rayflight.errors import ArchiveNotShared, InvalidSpec
from tests.fake_context import a_context, assert_one_sentence
from tests.world import flight

GROUP: dict[str, Any] = {"name": "gpu", "replicas": 2, "gpus": 1}
SHAPE: dict[str, Any] = {"image": "train:1", "ray_version": "2.60.0", "groups": [GROUP]}
JOB: dict[str, Any] = {"entrypoint": "python train.py"}


def group(**changes: Any) -> dict[str, Any]:
    return {"cluster": {**SHAPE, "groups": [{**GROUP, **changes}]}}


def job(**changes: Any) -> dict[str, Any]:
    return {"job": {**JOB, **changes}}


PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field of a shape": ({"cluster": {**SHAPE, "imagee": "x"}}, "imagee: unknown field, did you mean 'image'?"),
    "unknown field of a job": (job(working_dirr="x"), "job of task plan: working_dirr: unknown field, did you mean"),
    "unknown field of a resize": ({"resize": {"gpu": 1}}, "resize.gpu: there is no such field"),
    "unknown shape": ({"cluster": "gpu-9x9"}, "Unknown cluster shape 'gpu-9x9': known are: gpu-2x1"),
    "no shape": ({"cluster": None}, "No cluster shape: it is None"),
    "a list for a shape": ({"cluster": [GROUP]}, "No cluster shape: it is [{"),
    "group name too long": (group(name="g" * 64), "groups.0.name: 'ggg"),
    "namespace too long": ({"namespace": "n" * 64}, "No name of a namespace: 'nnn"),
    "namespace with a capital": ({"namespace": "Team-A"}, "No name of a namespace: 'Team-A'"),
    "negative GPUs": (group(gpus=-1), "groups.0.gpus: Input should be greater than or equal to 0, got -1"),
    "negative GPUs of a form": ({"resize": {"gpus": "-1"}}, "resize of group 'gpu': gpus: Input should be greater"),
    "GPUs in words": ({"resize": {"gpus": "two"}}, "resize.gpus: 'two' is not a whole number"),
    "half a GPU": ({"resize": {"gpus": 0.5}}, "resize.gpus: 0.5 is not a whole number"),
    "min above max": (group(min_replicas=3, max_replicas=1), "min_replicas 3 is above max_replicas 1"),
    "a form above max": (
        {**group(min_replicas=1, max_replicas=2), "resize": {"replicas": 5}},
        "replicas 5 is not between min_replicas 1 and max_replicas 2",
    ),
    "missing working_dir": (job(working_dir="/no/such/folder"), "Refused working_dir /no/such/folder: there is no"),
    "no entrypoint": ({"job": {"timeout": "2h"}}, "entrypoint: required, but missing"),
    "a command for a job": ({"job": "python train.py"}, "Refused job: it is 'python train.py', not a mapping"),
    "storage without a bucket": (job(storage="s3://"), "'s3://' must be the URL of an object store"),
    "timeout without a unit": (job(timeout="2 hours"), "timeout: '2 hours' is no span of time"),
    "unknown teardown": ({"teardown": "never"}, "teardown of task plan: mode: Input should be 'always'"),
    "kept for no stated time": ({"teardown": "keep_on_failure"}, "keep_on_failure needs keep_for"),
    "neither verified nor not": ({"verify": "ture"}, "verify: 'ture' is neither true nor false"),
    "no cluster at once": ({"at_once": 0}, "at_once: 0 is not at least 1"),
    "two queues": ({"at_once": 2, "cluster": {**SHAPE, "queue": "team"}}, "Two queues for one cluster"),
    "unknown connection": ({"conn_id": "no_such_connection"}, "Connection not found 'no_such_connection'"),
    "archive without a scheme": ({"archive": "archive/of/mine"}, "Unusable archive archive/of/mine"),
    "archive of an unknown kind": ({"archive": "floppy://a"}, "Unsupported filesystem: 'floppy'"),
    "archive of a store that is not installed": ({"archive": "s3://bucket/a"}, "Cannot write the archive s3://bucket"),
    "archive that cannot be written": ({"archive": "file:///proc/archive"}, "Cannot write the archive file:///proc/"),
}  # fmt: skip


@pytest.mark.parametrize("operator", [PlanFlight, CreateRayCluster])
@pytest.mark.parametrize(("given", "sentence"), PLANS.values(), ids=PLANS.keys())
def test_bad_input_ends_in_one_sentence_and_leaves_nothing(
    operator: type[PlanFlight], given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    arguments = {"cluster": SHAPE, "job": JOB, "archive": tmp_path.as_uri(), **given}
    context = a_context()
    with pytest.raises(InvalidSpec, match=re.escape(sentence)) as refused:
        operator(task_id="plan", **arguments).execute(context)
    assert_one_sentence(refused.value)
    assert list(tmp_path.iterdir()) == []
    assert context["ti"].pushed == {}


def test_good_input_passes(tmp_path: Path) -> None:
    made = PlanFlight(task_id="plan", cluster=SHAPE, job=JOB, archive=tmp_path.as_uri()).execute(a_context())
    assert made["cluster"].endswith("-a1")
    assert list(tmp_path.rglob("flight.json")) != []


def test_a_working_dir_that_is_too_large_is_known_before_the_cluster_is(tmp_path: Path) -> None:
    with (tmp_path / "data.bin").open("wb") as sparse:
        sparse.truncate(101 * 1024**2)
    task = PlanFlight(
        task_id="plan", cluster=SHAPE, job={**JOB, "working_dir": str(tmp_path)}, archive=tmp_path.as_uri()
    )
    with pytest.raises(InvalidSpec, match="too large") as refused:
        task.execute(a_context())
    assert_one_sentence(refused.value)


SUBMISSIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no flight": ({"flight": None}, "No flight was handed over to task train: flight is NoneType"),
    "text for a flight": ({"flight": "{'owner': {}}"}, "No flight was handed over to task train: flight is str"),
    "another dict for a flight": ({"flight": {"owner": {}}}, "what came is not a flight"),
    "nothing to train": ({}, "Nothing to train in task train: neither the flight nor the task has a job"),
    "unknown field": ({"job": {**JOB, "entry": "x"}}, "Refused job of task train: entry: unknown field"),
    "missing working_dir": ({"job": {**JOB, "working_dir": "/no/such/folder"}}, "Refused working_dir /no/such/folder"),
    "storage that the cluster lacks": (
        {"job": {**JOB, "storage": "checkpoints"}},
        "Refused storage of the job of task train: the cluster was made without it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), SUBMISSIONS.values(), ids=SUBMISSIONS.keys())
def test_a_submission_that_cannot_be_made_is_refused_before_the_cluster_is_asked(
    given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidSpec, match=re.escape(sentence)) as refused:
        SubmitRayJob(task_id="train", **{"flight": flight().to_dict(), **given}).execute(a_context(task_id="train"))
    assert_one_sentence(refused.value)


@pytest.fixture
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to a closed port: asking the cluster would be noticed."""
    context = {"name": "c", "context": {"cluster": "c"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    config = {"current-context": "c", "contexts": [context], "clusters": [cluster]}
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": config}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.parametrize(("operator", "given"), [(CreateRayCluster, {}), (SubmitRayJob, {"job": JOB})])
def test_an_archive_that_is_not_shared_is_said_before_anything_is_created(
    operator: type[Any], given: dict[str, Any], tmp_path: Path
) -> None:
    task = operator(task_id="next", flight=flight(archive=tmp_path.as_uri()).to_dict(), **given)
    with pytest.raises(ArchiveNotShared, match=re.escape(f"The archive is not shared: {tmp_path.as_uri()}")) as refused:
        task.execute(a_context(task_id="next"))
    assert_one_sentence(refused.value)


@pytest.mark.parametrize("span", ["soon", "30", 0, "0s", True])
def test_a_wait_of_no_length_is_refused_when_the_dag_is_read(span: Any) -> None:
    with pytest.raises(InvalidSpec, match=r"ready_timeout.*Next: write for example 30m") as refused:
        SubmitRayJob(task_id="train", ready_timeout=span)
    assert_one_sentence(refused.value)


@pytest.mark.parametrize("span", ["90s", 90, timedelta(seconds=90)])
def test_a_wait_is_written_as_every_other_span_of_time(span: Any) -> None:
    assert SubmitRayJob(task_id="train", ready_timeout=span).ready_timeout == timedelta(seconds=90)
