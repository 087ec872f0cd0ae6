"""Raw JSON, as the APIs serve it, becomes facts."""

import json

import pytest

from rayflight.snapshot import kubernetes, ray
from rayflight.snapshot.assemble import assemble
from rayflight.snapshot.model import Snapshot, quantity
from rayflight.snapshot.times import from_milliseconds, instant, seconds_between
from rayflight.states import JobStatus
from tests import moments


def group(**fields):
    return {"groupName": "gpu", "template": {"spec": {"containers": [{"name": "ray"}]}}, **fields}


def cluster_of(*groups, **spec):
    return kubernetes.cluster({"metadata": {"name": "c", "uid": "u"}, "spec": {"workerGroupSpecs": groups, **spec}})


@pytest.mark.parametrize("name", moments.names())
def test_every_moment_survives_json(name):
    seen = moments.moment(name)
    assert Snapshot.from_dict(json.loads(json.dumps(seen.to_dict()))) == seen


@pytest.mark.parametrize(
    ("fields", "desired"),
    [
        ({"replicas": 2}, 2),
        ({"minReplicas": 3}, 3),
        ({"replicas": 1, "minReplicas": 2, "maxReplicas": 4}, 2),
        ({"replicas": 9, "minReplicas": 0, "maxReplicas": 4}, 4),
        ({"replicas": 2, "minReplicas": 3, "maxReplicas": 2}, 2),
        ({"replicas": 2, "numOfHosts": 4}, 8),
        ({"replicas": 2, "suspend": True}, 0),
        ({}, 0),
    ],
)
def test_desired_pods_are_replicas_between_the_bounds_times_hosts(fields, desired):
    assert cluster_of(group(**fields)).groups[0].desired == desired


@pytest.mark.parametrize(
    "parse",
    [kubernetes.cluster, kubernetes.pod, kubernetes.node, kubernetes.quota, kubernetes.claim, kubernetes.service],
)
def test_an_object_that_says_nothing_but_its_name_is_read(parse):
    assert parse({"metadata": {"name": "x"}}).name == "x"
    with pytest.raises(KeyError):
        parse({"metadata": {}})


def test_every_field_that_judgement_needs_is_read():
    seen = moments.moment("healthy-t060s")
    assert seen.cluster.head_service == "c-head-svc"
    assert (seen.cluster.generation, seen.cluster.observed_generation) == (1, 1)
    assert seen.cluster.head_start_params["num-gpus"] == "0"
    assert seen.cluster.groups[0].selector == {"kubernetes.io/hostname": "node-1"}
    assert seen.services[0].ports["dashboard"] == 8265
    assert {pod.owner_uid for pod in seen.pods} == {seen.cluster.uid}
    group = seen.ray.placement_groups[0]
    assert (group.state, group.ray_job, len(group.bundles), group.bundles[0]["GPU"]) == ("REMOVED", "02000000", 2, 1.0)
    assert group.since
    job = seen.ray.jobs[0]
    assert (job.ray_job, job.message, job.driver_exit_code) == ("02000000", "Job finished successfully.", 0)
    assert job.driver_node_id == next(node.id for node in seen.ray.nodes if node.is_head)
    assert seen.ray.session.startswith("session_")


def test_a_tainted_node_and_a_claiming_pod_are_read():
    taints = moments.moment("tainted-gpu-node-t041s").nodes[0].taints
    assert [(item.key, item.value, item.effect) for item in taints] == [("nvidia.com/gpu", "present", "NoSchedule")]
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "data"}}]
    tolerations = [{"key": "k", "effect": "NoSchedule"}]
    pod = kubernetes.pod({"metadata": {"name": "p"}, "spec": {"volumes": volumes, "tolerations": tolerations}})
    assert pod.claims == ("data",)
    assert (pod.tolerations[0].effect, pod.tolerations[0].operator) == ("NoSchedule", "Equal")


def test_desired_pods_count_the_head():
    assert cluster_of(group(replicas=2), group(replicas=1)).desired_pods == 4


def test_a_cluster_that_nobody_reconciled_has_no_status():
    assert not moments.moment("operator-paused-t005s").cluster.has_status
    assert moments.moment("quota-of-one-gpu-t008s").cluster.has_status


def test_token_mode_is_seen_in_auth_options_and_in_the_environment():
    head = {"template": {"spec": {"containers": [{"name": "h", "env": [{"name": "RAY_AUTH_MODE", "value": "token"}]}]}}}
    assert cluster_of(authOptions={"mode": "token"}).auth_mode == "token"
    assert cluster_of(headGroupSpec=head).auth_mode == "token"
    assert moments.moment("auth-options-dropped-t026s").cluster.auth_mode == ""


def test_a_pods_containers_carry_state_last_end_and_resources():
    pods = moments.moment("worker-bad-flag-t066s").workers()
    container = next(item for item in pods[0].containers if item.name == "ray-worker")
    assert container.last.exit_code == 2
    assert container.restarts >= 1
    assert container.limits["nvidia.com/gpu"] == "1"
    assert pods[0].request("cpu") == pytest.approx(0.1)


def test_an_init_containers_fault_is_kept_apart_from_the_main_container():
    worker = moments.moment("image-not-found-t010s").workers()[0]
    reasons = {(item.name, item.init): item.reason for item in worker.containers}
    assert reasons["wait-gcs-ready", True] in ("ErrImagePull", "ImagePullBackOff")
    assert reasons["ray-worker", False] == "PodInitializing"


def test_events_of_both_apis_are_the_same_facts():
    core = {
        "metadata": {"name": "e", "uid": "1", "creationTimestamp": "2026-12-01T06:41:50Z"},
        "involvedObject": {"kind": "Pod", "name": "p", "uid": "u"},
        "reason": "FailedScheduling",
        "message": "no",
        "type": "Warning",
        "firstTimestamp": "2026-12-01T06:41:50Z",
        "lastTimestamp": "2026-12-01T06:42:50Z",
        "count": 3,
        "source": {"component": "default-scheduler"},
    }
    new = {
        "metadata": core["metadata"],
        "regarding": core["involvedObject"],
        "reason": "FailedScheduling",
        "note": "no",
        "type": "Warning",
        "eventTime": "2026-12-01T06:41:50.000000Z",
        "series": {"count": 3, "lastObservedTime": "2026-12-01T06:42:50.000000Z"},
        "reportingController": "default-scheduler",
    }
    assert kubernetes.event(core) == kubernetes.event(new)


def test_an_event_served_by_both_apis_counts_once_and_events_are_in_order():
    late = {"metadata": {"uid": "2", "creationTimestamp": "2026-12-01T06:41:50Z"}, "reason": "B"}
    early = {"metadata": {"uid": "1", "creationTimestamp": "2026-12-01T06:41:49Z"}, "reason": "A"}
    assert [item.reason for item in kubernetes.events([late, early], [early])] == ["A", "B"]


def test_an_uncounted_quota_shows_its_hard_limits():
    found = kubernetes.quota({"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": 1}}})
    assert (found.hard, found.used) == ({"requests.nvidia.com/gpu": "1"}, {})


def test_unhealthy_devices_are_read_from_the_kubelets_report():
    devices = [{"resourceID": "a", "health": "Healthy"}, {"resourceID": "b", "health": "Unhealthy"}]
    status = {"name": "ray", "allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": devices}]}
    raw = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "ray"}]},
        "status": {"containerStatuses": [status]},
    }
    assert kubernetes.pod(raw).containers[0].unhealthy_devices == ("b",)


def test_a_deletion_began_its_grace_before_the_time_that_the_api_shows():
    times = {"deletionTimestamp": "2026-12-01T06:42:30Z", "deletionGracePeriodSeconds": 30}
    assert kubernetes.pod({"metadata": {"name": "p", **times}}).deleting_since == "2026-12-01T06:42:00.000Z"


def test_ray_nodes_carry_state_resources_and_why():
    nodes = moments.moment("worker-pod-deleted-t093s").ray.nodes
    dead = [item for item in nodes if item.state == "DEAD"]
    assert len(dead) == 1
    assert "SIGTERM" in dead[0].why
    assert dead[0].resources["GPU"] == 1.0
    assert dead[0].ended_at > dead[0].started_at


def test_the_summary_names_the_pod_of_a_ray_node():
    rows = [{"node_id": "n1", "node_ip": "10.0.0.1", "state": "ALIVE"}]
    raw = {"result": True, "data": {"result": {"result": rows}}}
    summary = {"data": {"summary": [{"raylet": {"nodeId": "n1", "instanceId": "pod-a"}}]}}
    assert ray.ray_nodes(raw, summary)[0].pod == "pod-a"
    assert ray.ray_nodes(raw)[0].pod == ""


def test_a_failed_state_answer_is_not_an_empty_list():
    with pytest.raises(ValueError, match="GCS is down"):
        ray.ray_nodes({"result": False, "msg": "GCS is down", "data": {}})


def test_only_submissions_are_jobs():
    rows: list[dict] = [
        {"type": "DRIVER", "submission_id": None, "job_id": "01", "status": "RUNNING"},
        {"type": "SUBMISSION", "submission_id": "a", "status": "FAILED", "driver_exit_code": 0, "start_time": 1000},
    ]
    (job,) = ray.jobs(rows)
    assert (job.id, job.status, job.driver_exit_code) == ("a", JobStatus.FAILED, 0)


def test_demands_are_the_lines_below_their_heading():
    text = "Resources\n\nPending Demands:\n {'GPU': 8.0}: 1+ pending tasks/actors\n"
    assert ray.pending_demands({"data": {"clusterStatus": text}}) == ("{'GPU': 8.0}: 1+ pending tasks/actors",)
    assert moments.moment("healthy-t027s").ray.pending_demands == ()


@pytest.mark.parametrize(
    "titles",
    [
        ("Usage:", "Demands:"),
        ("Total Usage:", "Total Constraints:\n (no request_resources() constraints)\nTotal Demands:"),
        ("Total Usage:", "From request_resources:\n (none)\nPending Demands:"),
    ],
)
def test_every_rays_report_has_demands_and_usage_under_its_own_titles(titles):
    usage, demands = titles
    text = (
        f"Resources\n--------\n{usage}\n 0.0/4.0 CPU\n 0B/2.0GiB memory\n\n"
        f"{demands}\n {{'GPU': 8.0}}: 1+ pending tasks/actors\n\nNode: a\n Usage:\n  1.0/1.0 CPU"
    )
    seen = {"data": {"clusterStatus": text}}
    assert ray.pending_demands(seen) == ("{'GPU': 8.0}: 1+ pending tasks/actors",)
    assert ray.usage(seen) == ("0.0/4.0 CPU", "0B/2.0GiB memory")


def test_what_could_not_be_read_becomes_a_gap_that_says_why():
    seen = moments.moment(
        "healthy-t027s", nodes={"error": "nodes is forbidden"}, ray__nodes={"result": False, "msg": "x"}
    )
    assert seen.nodes == ()
    assert seen.gap("nodes").why == "nodes is forbidden"
    assert "x" in seen.gap("ray.nodes").why
    assert seen.gap("pods") is None


def test_an_unreachable_dashboard_is_a_gap_and_no_ray_side():
    seen = moments.moment("operator-paused-t005s")
    assert seen.ray is None
    assert "c-head-svc" in seen.gap("ray").why


def test_all_times_have_one_form_that_sorts_as_text():
    assert instant("2026-12-01T07:41:57.755944+01:00") == "2026-12-01T06:41:57.755Z"
    assert instant("2026-12-01T06:41:57Z") < instant("2026-12-01T06:41:57.1Z")
    assert instant(None) is None
    assert from_milliseconds(0) is None
    assert seconds_between(from_milliseconds(1000), from_milliseconds(3500)) == 2.5


@pytest.mark.parametrize(
    ("text", "value"), [("200m", 0.2), ("2Gi", 2**31), ("9048576k", 9048576e3), ("1e3", 1000), (3, 3)]
)
def test_quantities_are_read_in_base_units(text, value):
    assert quantity(text) == pytest.approx(value)


def test_what_the_kubelet_says_in_place_of_a_log_is_no_log():
    logs = {
        "p/ray-head/previous": "unable to retrieve container logs for containerd://f057e6",
        "q/ray-head/previous": 'failed to try resolving symlinks in path "/var/log/pods/x": lstat',
        "p/ray-head": "boom",
    }
    seen = assemble({}, namespace="ns", name="c", taken_at="2026-12-01T10:00:00Z", logs=logs)
    assert seen.logs == {"p/ray-head": "boom"}
