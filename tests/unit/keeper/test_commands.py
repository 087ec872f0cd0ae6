"""How the trees of a local cluster are started: apart from each other, and from Airflow."""

from __future__ import annotations

from dataclasses import replace

from rayflight.keeper.commands import Ports, Tree, command, environment, safe_path, simulated_devices

HEAD = Tree(
    name="c-head", role="head", group="headgroup", index=0, folder="/tmp/rf-1/h", cpus=0, gpus=0, simulated=True,
    object_store=100, memory=None, environment={"PATH": "/bin"}, parameters={},
)  # fmt: skip
WORKER = replace(HEAD, name="c-gpu-1", role="worker", group="gpu", index=1, folder="/tmp/rf-1/w1", gpus=2, memory=5)


def given(tree: Tree, **changes: object) -> dict[str, str]:
    arguments = {"uid": "u-1", "folder": "/state", "devices": (), "fenced": True, "token_file": None, **changes}
    return environment(tree, **arguments)  # type: ignore[arg-type]


def test_head_and_worker_use_their_own_ports_and_folders():
    ports = Ports(gcs=1, dashboard=2, client=3, agent=4)
    head, worker = command("/opt/ray", HEAD, ports), command("/opt/ray", WORKER, ports)
    assert head[:3] == ["/opt/ray", "start", "--head"]
    assert {"--port=1", "--dashboard-port=2", "--ray-client-server-port=3", "--temp-dir=/tmp/rf-1/h"} <= set(head)
    assert {"--address=127.0.0.1:1", "--dashboard-agent-listen-port=4", "--temp-dir=/tmp/rf-1/w1"} <= set(worker)
    assert "--memory=5" in worker
    assert "--labels=ray.io/node-group=gpu" in worker
    for arguments in (head, worker):
        assert {"--block", "--min-worker-port=0", "--max-worker-port=0"} <= set(arguments)


def test_every_process_carries_the_marks_by_which_it_is_ended():
    found = given(WORKER)
    assert found["RAYFLIGHT_LOCAL_CLUSTER"] == "u-1"
    assert found["RAYFLIGHT_LOCAL_POD"] == found["RAY_CLOUD_INSTANCE_ID"] == "c-gpu-1"
    assert found["RAYFLIGHT_LOCAL_FOLDER"] == "/state"


def test_nothing_of_airflows_environment_is_handed_on(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SECRET", "x")
    assert "AIRFLOW_CONN_SECRET" not in given(WORKER)
    assert given(WORKER)["PATH"] == "/bin"


def test_temporary_files_lie_in_the_trees_own_folder_unless_the_shape_says_otherwise():
    assert given(WORKER)["TMPDIR"] == "/tmp/rf-1/w1/temporary"
    assert given(replace(WORKER, environment={"TMPDIR": "/scratch"}))["TMPDIR"] == "/scratch"


def test_a_token_is_asked_for_where_one_is_given():
    # Not unset: a token that the user's own Ray has left in the home folder would switch it on.
    assert given(WORKER)["RAY_AUTH_MODE"] == "disabled"
    found = given(WORKER, token_file="/state/token", fenced=False)
    assert (found["RAY_AUTH_MODE"], found["RAY_AUTH_TOKEN_PATH"]) == ("token", "/state/token")
    assert "GLOO_SOCKET_IFNAME" not in found
    assert given(WORKER)["GLOO_SOCKET_IFNAME"] == "lo"


def test_simulated_gpus_have_names_that_no_driver_knows():
    devices = simulated_devices(WORKER)
    assert devices == ("SIMULATED-1-0", "SIMULATED-1-1")
    found = given(WORKER, devices=devices)
    assert found["CUDA_VISIBLE_DEVICES"] == found["RAYFLIGHT_DEVICES"] == "SIMULATED-1-0,SIMULATED-1-1"
    assert found["RAYFLIGHT_SIMULATED_GPU"] == "1"


def test_a_tree_without_gpus_sees_none_and_real_ones_are_not_called_simulated():
    assert given(HEAD)["CUDA_VISIBLE_DEVICES"] == ""
    real = given(replace(WORKER, simulated=False), devices=("GPU-a", "GPU-b"))
    assert real["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert "RAYFLIGHT_SIMULATED_GPU" not in real


def test_python_is_the_one_that_has_ray():
    assert safe_path("/opt/ray/bin/ray", "/usr/bin") == "/opt/ray/bin:/usr/bin"
