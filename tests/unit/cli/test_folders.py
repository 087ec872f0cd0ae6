"""``rayflight diagnose`` on folders and bundles: verdict, exit code, and what it forgives."""

import json
import subprocess
import sys
import tarfile

import pytest

from tests.folders import write, write_moment
from tests.moments import moment


def judged(run, *words):
    ran = run("diagnose", "--json", *words)
    return ran.code, json.loads(ran.out)


def test_a_healthy_cluster_is_exit_code_0(run, tmp_path):
    code, found = judged(run, write(tmp_path / "x", "healthy-t027s", "healthy-t060s"))
    assert (code, found["verdict"], found["cause"]) == (0, "healthy", None)


def test_a_cause_is_exit_code_1_and_the_schema_is_whole(run, tmp_path):
    code, found = judged(run, write_moment(tmp_path / "x", "quota-of-one-gpu-t044s"))
    assert code == 1
    assert list(found) == ["schema", "verdict", "cause", "consequences", "gaps", "facts"]
    assert found["schema"] == 1
    cause = found["cause"]
    assert {"id", "title", "layer", "summary", "objects", "since", "evidence", "next_step", "decision"} <= set(cause)
    assert {"object", "at", "text"} == set(cause["evidence"][0])
    assert "gpu-quota" in cause["summary"]


def test_what_nothing_explains_is_exit_code_2(run, tmp_path):
    code, found = judged(run, write_moment(tmp_path / "x", "healthy-t027s", ray__nodes={"error": "no answer"}))
    assert (code, found["verdict"]) == (2, "unknown")
    assert "ray.nodes: no answer" in found["gaps"]


@pytest.mark.parametrize("words", [("nonsense",), ("--nonsense", "x"), ("/dev/null",), ("a/b/c",), ()])
def test_bad_input_is_exit_code_3_with_one_sentence(run, words):
    ran = run("diagnose", *words)
    assert ran.code == 3
    assert len(ran.err.strip().splitlines()) == 1
    assert "Traceback" not in ran.err + ran.out


def test_an_empty_folder_and_one_of_two_clusters_are_refused(run, tmp_path):
    (tmp_path / "empty").mkdir()
    assert run("diagnose", tmp_path / "empty").code == 3
    two = {"items": [{"metadata": {"name": name, "namespace": "ns"}} for name in "ab"]}
    place = write_moment(tmp_path / "two", "healthy-t027s", rayclusters=two)
    ran = run("diagnose", place)
    assert ran.code == 3
    assert "a, b" in ran.err
    assert run("diagnose", place, "--cluster", "a").code == 2


def test_the_newest_moment_is_judged_and_the_first_one_knows_what_was_there(run, tmp_path):
    names = ("head-pod-deleted-t000", "head-pod-deleted-t021s", "head-pod-deleted-t056s")
    _, found = judged(run, write(tmp_path / "x", *names))
    assert found["cause"]["id"] == "head-pod-lost"
    assert [item["id"] for item in found["consequences"]] == ["ray-session-changed"]


def test_what_an_earlier_moment_proved_is_not_forgotten_while_all_is_not_well(run, tmp_path):
    place = write(tmp_path / "x", "tainted-gpu-node-t041s")
    write_moment(place / "u", "tainted-gpu-node-t041s", pods={"items": []}, events={"items": []})
    (place / "u" / "collected.json").write_text(json.dumps({"at": "2026-12-01T23:00:00+00:00"}))
    _, found = judged(run, place)
    assert "taint-not-tolerated" in [item["id"] for item in [found["cause"], *found["consequences"]]]


def test_a_bundle_is_read_like_its_folder(run, tmp_path):
    write(tmp_path / "case", "worker-bad-flag-t066s")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "case", "case")
    _, folder = judged(run, tmp_path / "case")
    assert judged(run, tmp_path / "b.tar.gz") == (1, folder)


def test_a_tar_that_would_write_elsewhere_is_refused(run, tmp_path):
    place = write_moment(tmp_path / "x", "healthy-t027s")
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        tar.add(place, "case")
        tar.add(place / "pods.json", f"../{tmp_path.name}-escaped.json")
    ran = run("diagnose", tmp_path / "b.tar")
    assert ran.code == 3
    assert "escaped" in ran.err or "outside" in ran.err


@pytest.mark.parametrize("text", ["", "{", "[]", '{"items": [{}]}', '{"items": 7}', "null", '"x"'])
@pytest.mark.parametrize("file", ["pods", "events", "nodes", "rayclusters", "ray/nodes", "ray/jobs", "ray/version"])
def test_a_broken_file_is_a_gap_and_no_traceback(run, tmp_path, file, text):
    place = write_moment(tmp_path / "x", "too-few-gpus-t046s")
    (place / "case.json").write_text('{"cluster": "c"}')
    (place / f"{file}.json").write_text(text)
    assert run("diagnose", place).code in (0, 1, 2)


def test_a_health_check_that_could_not_be_made_is_not_an_ill_gcs(run, tmp_path):
    place = write_moment(tmp_path / "x", "healthy-t027s")
    (place / "ray" / "gcs_healthz.txt").write_text('{"error": "no answer within 15 s"}')
    assert judged(run, place)[1]["verdict"] == "healthy"
    (place / "ray" / "gcs_healthz.txt").write_text("Health check failed: Timed out while waiting for GCS")
    assert judged(run, place)[1]["cause"]["id"] == "gcs-unhealthy"


def test_files_may_be_missing(run, tmp_path):
    place = write_moment(tmp_path / "x", "too-few-gpus-t046s")
    for path in [*place.glob("ray/*"), place / "events.json", place / "services.json", place / "collected.json"]:
        path.unlink(missing_ok=True)
    _, found = judged(run, place)
    assert found["cause"]["id"] == "not-enough-in-total"
    assert "ray: not collected" in found["gaps"]


def test_a_token_in_a_log_or_an_entrypoint_is_not_printed(run, tmp_path):
    place = write_moment(tmp_path / "x", "exit-code-seven-t035s")
    jobs = json.loads((place / "ray" / "jobs.json").read_text())
    jobs[0] |= {"entrypoint": "HF_TOKEN=planted-1 python a.py", "message": "last available logs\npassword=planted-2"}
    (place / "ray" / "jobs.json").write_text(json.dumps(jobs))
    for words in (("--json",), ("--markdown",), ()):
        out = run("diagnose", *words, place).out
        assert "planted" not in out
        assert "python a.py" in out


def test_the_archive_of_a_flight_is_read_like_a_bundle(run, tmp_path):
    place = tmp_path / "attempt-1" / "c"
    (place / "logs" / "pod-x").mkdir(parents=True)
    (place / "snapshot.json").write_text(json.dumps(moment("quota-of-one-gpu-t044s").to_dict()))
    (place / "logs" / "pod-x" / "ray-head.previous.log").write_text("NVRM: Xid (PCI:0000:3b:00): 79, pid=1")
    code, found = judged(run, place)
    assert (code, found["cause"]["id"]) == (1, "gpu-xid-hardware")
    assert "quota-below-request" in [item["id"] for item in found["consequences"]]
    (place / "snapshot.json").write_text("{}")
    assert run("diagnose", place).code == 3


def test_a_folder_above_it_says_which_one_is_meant(run, tmp_path):
    place = tmp_path / "flight" / "attempt-1" / "c"
    place.mkdir(parents=True)
    (place / "snapshot.json").write_text("{}")
    for above in (place.parent, place.parents[1], place.parents[2]):
        ran = run("diagnose", above)
        assert ran.code == 3
        assert f"Next: name the cluster's own folder in this archive: {place}" in ran.err


def test_a_rayjob_without_a_cluster_is_judged_by_its_own_words(run, tmp_path):
    (tmp_path / "x").mkdir()
    refused = {"metadata": {"name": "rj", "namespace": "ns"}, "status": {"jobDeploymentStatus": "ValidationFailed"}}
    (tmp_path / "x" / "rayjobs.json").write_text(json.dumps({"items": [refused]}))
    assert judged(run, tmp_path / "x")[1]["cause"]["id"] == "rayjob-validation-failed"


def test_the_report_for_people_fits_into_120_columns(run, tmp_path):
    ran = run("diagnose", write(tmp_path / "x", "head-pod-deleted-t000", "head-pod-deleted-t056s"))
    assert max(len(line) for line in ran.out.splitlines()) <= 120
    for part in ("Next:", "Decision:", "Kubernetes", "Ray", "Evidence", "Consequences", "What could not be read"):
        assert part in ran.out


def test_the_markdown_report_has_both_columns(run, tmp_path):
    out = run("diagnose", "--markdown", write(tmp_path / "x", "head-pod-deleted-t000", "head-pod-deleted-t056s")).out
    assert "| UTC | Kubernetes | Ray |" in out
    assert "Ray's session is now" in out


def test_the_command_loads_neither_airflow_nor_clients_for_a_folder(tmp_path):
    place = write_moment(tmp_path / "x", "healthy-t027s")
    code = (
        "import sys; from rayflight.cli.main import main; sys.argv=['rayflight','diagnose','--json',sys.argv[1]]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([name for name in ('airflow','httpx','rich.table') if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]])
@pytest.mark.parametrize(("moments", "code"), [(["healthy-t027s"], 0), (["head-pod-deleted-t056s"], 1)])
def test_a_reader_who_has_seen_enough_changes_no_verdict(tmp_path, form, moments, code):
    place = write(tmp_path / "x", *moments)
    program = "from rayflight.cli.main import main; main()"
    ran = subprocess.Popen(
        [sys.executable, "-c", program, "diagnose", *form, place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert ran.stdout is not None
    ran.stdout.close()
    assert (ran.wait(30), ran.stderr.read() if ran.stderr else b"") == (code, b"")
