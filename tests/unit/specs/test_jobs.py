"""What is run: checked before anything is created."""

from datetime import timedelta

import pytest

from rayflight.errors import InvalidSpec
from rayflight.specs import JobSpec, ObjectStorage, PvcStorage, ScriptVariable

REFUSED = {
    "no entrypoint": ({}, "entrypoint: required, but missing"),
    "blank entrypoint": ({"entrypoint": "  "}, "entrypoint: must be a command"),
    "two working folders": (
        {"entrypoint": "x", "working_dir": "a", "runtime_env": {"working_dir": "s3://b/a.zip"}},
        "stands in the job and in runtime_env",
    ),
    "local folder in runtime_env": (
        {"entrypoint": "x", "runtime_env": {"working_dir": "./src"}},
        "runtime_env.working_dir './src' is a local folder; give it as working_dir",
    ),
    "variable of ours": ({"entrypoint": "x", "env": {"RAYFLIGHT_RUN_ID": "1"}}, "are set by Rayflight, use another"),
    "no name": ({"entrypoint": "x", "env": {"1A": "1"}}, "'1A' is no name for an environment variable"),
    "variable given twice": (
        {"entrypoint": "x", "env": {"A": "1"}, "runtime_env": {"env_vars": {"A": "2"}}},
        "A stands in env and in runtime_env.env_vars",
    ),
    "metadata of ours": ({"entrypoint": "x", "metadata": {"rayflight_owner": "me"}}, "says whose a job is"),
    "negative GPUs": ({"entrypoint": "x", "entrypoint_num_gpus": -1}, "entrypoint_num_gpus: Input should be greater"),
    "no time": ({"entrypoint": "x", "timeout": "0s"}, "0:00:00 must be above zero"),
    "time without a unit": (
        {"entrypoint": "x", "timeout": "soon"},
        "timeout: 'soon' is no span of time: write for example 90s",
    ),
    "unknown word for hangs": ({"entrypoint": "x", "on_hang": "kill"}, "on_hang: Input should be 'report', 'fail' or"),
    "a hook beside ours": (
        {"entrypoint": "x", "stack_signal": True, "runtime_env": {"worker_process_setup_hook": "mine.hook"}},
        "stack_signal sets runtime_env.worker_process_setup_hook itself",
    ),
    "relative mount": (
        {"entrypoint": "x", "storage": {"claim": "c", "mount_path": "data"}},
        "must be an absolute path",
    ),
    "mount that climbs": ({"entrypoint": "x", "storage": {"claim": "c", "sub_path": "../other"}}, "inside the claim"),
    "file URL": ({"entrypoint": "x", "storage": {"url": "file:///tmp/x"}}, "must be the URL of an object store"),
    "no URL": ({"entrypoint": "x", "storage": {"url": "bucket/folder"}}, "must be the URL of an object store"),
}


@pytest.mark.parametrize(("data", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_job_is_refused_in_one_sentence(data, sentence):
    with pytest.raises(InvalidSpec) as refused:
        JobSpec.parse(data)
    assert sentence in str(refused.value)


def test_missing_working_dir_is_refused_before_anything_is_created(tmp_path):
    with pytest.raises(InvalidSpec, match="there is no such folder on this machine"):
        JobSpec(entrypoint="python x.py", working_dir=tmp_path / "none").require_files()


def test_file_and_empty_folder_are_no_working_dir(tmp_path):
    script = tmp_path / "train.py"
    with pytest.raises(InvalidSpec, match="it is empty"):
        JobSpec(entrypoint="x", working_dir=tmp_path).require_files()
    script.write_text("")
    JobSpec(entrypoint="x", working_dir=tmp_path).require_files()
    JobSpec(entrypoint="x").require_files()
    with pytest.raises(InvalidSpec, match="it is a file, not a folder"):
        JobSpec(entrypoint="x", working_dir=script).require_files()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90s", timedelta(seconds=90)),
        ("1.5h", timedelta(minutes=90)),
        ("PT2H", timedelta(hours=2)),
        (60, timedelta(minutes=1)),
    ],
)
def test_timeouts_are_read_with_their_unit(written, meant):
    job = JobSpec.parse({"entrypoint": "x", "timeout": written})
    assert job.timeout == meant
    assert JobSpec.parse(job.to_dict()) == job


def test_memory_is_handed_to_ray_in_bytes():
    assert JobSpec.parse({"entrypoint": "x", "entrypoint_memory": "1.5Gi"}).entrypoint_memory_bytes == 3 * 2**29
    assert JobSpec.parse({"entrypoint": "x"}).entrypoint_memory_bytes is None


def test_storage_tells_its_paths():
    assert PvcStorage(claim="c", mount_path="/mnt/x").under("run", "1") == "/mnt/x/run/1"
    assert ObjectStorage(url="s3://b/f/").under("run", "1") == "s3://b/f/run/1"


def test_every_script_variable_has_a_meaning():
    assert all(variable.meaning and variable.startswith("RAYFLIGHT_") for variable in ScriptVariable)
