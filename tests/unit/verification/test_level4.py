"""Level 4: what the probe's ranks computed, and what failed rows decide."""

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from rayflight.verification import blocking, diagnosis_from_checks, verify_all
from tests.made_up import gap, worker
from tests.unit.verification.probing import (
    CPU_COMPUTE,
    GPU_COMPUTE,
    rank,
    result,
    rows,
    snapshot_with_store,
    spec,
    verdicts,
)

SEEN = snapshot_with_store()
CLAIM = {"storage": {"claim": "data"}}
STORED = {"path": "/mnt/rayflight", "wrote": True, "read_all": True}


def collective(**changes):
    return {**rank(0)["collective"], **changes}


def test_a_probe_without_a_result_fails_with_its_logs_tail():
    checks = verify_all(spec(), SEEN, None, probe_log="ModuleNotFoundError: No module named 'ray'")
    row = next(check for check in checks if check.id == "probe-ran")
    assert row.verdict == "failed"
    assert "ModuleNotFoundError" in row.evidence


def test_bundles_without_room_fail_with_what_was_free():
    probed = result(placement={"ok": False, "bundles": 2, "error": "no room for 2 bundles; free in Ray: GPU 1"})
    assert rows("probe-ran", probed=probed)[0].observed.startswith("no room for 2 bundles")
    assert rows("compute", probed=probed) == []


@pytest.mark.parametrize(
    ("probed", "words"),
    [
        (result(rank(0)), "1 rank in 3.2 s"),
        (result(rank(0), rank(1, python=None, error="describe: no answer within 60 s")), "1 silent: rank 1"),
        (result(rank(0), rank(1, error="describe: CUDA error")), "2 ranks"),
        (result(rank(0), rank(1, failed={"surroundings": "OSError: no"})), "2 ranks"),
        (result(rank(0), rank(1, failed={"compute": "did not answer within 30 s"})), "1 silent: rank 1"),
    ],
)
def test_a_missing_silent_or_failing_rank_fails_the_probe(probed, words):
    (row,) = rows("probe-ran", probed=probed)
    assert row.verdict == "failed"
    assert words in row.observed


@pytest.mark.parametrize(
    ("compute", "verdict", "words"),
    [
        (GPU_COMPUTE, "passed", "cuda:0 NVIDIA A100"),
        ({**GPU_COMPUTE, "matmul_ok": False, "max_error": 3.0}, "failed", "WRONG by 3.0"),
        (CPU_COMPUTE, "failed", "cpu"),
        (None, "failed", "no answer"),
    ],
)
def test_numbers_must_be_right_and_computed_on_the_gpu(compute, verdict, words):
    row = rows("compute", probed=result(rank(0), rank(1, compute=compute)))[1]
    assert row.verdict == verdict
    assert words in row.observed


def test_a_simulated_gpu_computes_on_the_cpu_and_says_so():
    ranks = [
        rank(number, simulated=True, compute=CPU_COMPUTE, collective=collective(backend="gloo")) for number in (0, 1)
    ]
    assert verdicts("compute", probed=result(*ranks), asked=spec(simulated=True)) == ["passed", "passed"]
    assert verdicts("collective", probed=result(*ranks), asked=spec(simulated=True)) == ["passed"]
    assert "the CPU" in rows("compute", probed=result(*ranks), asked=spec(simulated=True))[0].expected


STOPPED = {
    "compute": None, "collective": None, "object_store": None, "storage": {**STORED, "wrote": False, "read_all": False},
}  # fmt: skip


def test_a_rank_that_hangs_fails_the_probe_alone_and_is_named():
    """What it could not be asked any more is not checked; that it forbids to go on is said once."""
    hung = rank(1, **STOPPED, failed={"surroundings": "did not answer within 30 s; it ran on pod w"}, error="...")
    skipped = {"failed": {"collective": "skipped, since not every rank answered"}, "collective": None}
    probed = result(rank(0, storage={**STORED, "read_all": False}, **skipped), hung)
    checks = verify_all(spec(**CLAIM), SEEN, probed)
    assert [check.id for check in checks if check.verdict == "failed"] == ["probe-ran"]
    assert {check.id for check in checks if check.verdict == "unknown"} >= {"compute", "collective", "object-store"}
    (row,) = rows("probe-ran", probed=probed)
    assert row.facts == {"pod": "flight-gpu-worker-2", "node": "gpu-2", "rank": 1, "gpu": "GPU-1"}
    assert "did not answer within 30 s" in row.evidence


def test_a_pod_in_which_no_process_starts_is_looked_at_for_its_dns_first():
    absent = rank(1, python=None, compute=None, collective=None, failed={"describe": "did not answer within 60 s"})
    (row,) = rows("probe-ran", probed=result(rank(0), absent))
    assert "DNS" in row.next_step
    assert row.facts["node"] == "gpu-2"
    late = rank(1, failed={"compute": "did not answer within 30 s"}, compute=None)
    assert "DNS" not in rows("probe-ran", probed=result(rank(0), late))[0].next_step


def test_storage_that_one_rank_cannot_write_fails_its_row_alone_and_names_that_rank_first():
    blind = rank(0, storage={**STORED, "read_all": False}, failed={"read_all": "FileNotFoundError: 1"})
    bare = rank(1, storage={**STORED, "wrote": False}, failed={"write": "OSError: Read-only file system"})
    checks = verify_all(spec(**CLAIM), SEEN, result(blind, bare))
    (row,) = [check for check in checks if check.verdict == "failed"]
    assert row.id == "storage-shared"
    assert row.observed.startswith(
        "rank 1 in pod flight-gpu-worker-2 on node gpu-2: could not write: OSError: Read-only"
    )
    assert row.facts["node"] == "gpu-2"


def test_a_question_with_a_row_of_its_own_is_judged_there():
    probed = result(rank(0), rank(1, compute=None, failed={"compute": "RuntimeError: CUDA error"}))
    assert [check.id for check in blocking(verify_all(spec(), SEEN, probed))] == ["compute"]


@pytest.mark.parametrize("answer", [None, collective(ok=False), collective(world_size=1), collective(backend="gloo")])
def test_the_collective_needs_every_rank_the_right_sum_and_nccl_on_gpus(answer):
    assert verdicts("collective", probed=result(rank(0), rank(1, collective=answer))) == ["failed"]


def test_the_collective_tells_nodes_from_the_network_and_names_the_slow_link():
    fast = collective(node={"ok": True, "ranks": 2, "bandwidth_gbps": 300.0})
    slow = collective(node={"ok": True, "ranks": 2, "bandwidth_gbps": 280.0}, from_previous_gbps=3.0)
    (row,) = rows("collective", probed=result(rank(0, collective=fast), rank(1, collective=slow)))
    assert row.observed == (
        "nccl, slowest rank 100 GB/s, inside the slowest node 280 GB/s, "
        "slowest link 3 GB/s into rank 1 in pod flight-gpu-worker-2 on node gpu-2"
    )
    broken = collective(node={"ok": False, "ranks": 2, "bandwidth_gbps": 280.0})
    assert verdicts("collective", probed=result(rank(0), rank(1, collective=broken))) == ["failed"]


def test_the_collective_shows_the_slowest_ranks_bandwidth():
    assert rows("collective")[0].observed == "nccl, slowest rank 100 GB/s"


@pytest.mark.parametrize(
    "answer", [None, {"put_get_ok": False, "from_node": "x"}, {"put_get_ok": True, "from_node": "ray-worker-uid-2"}]
)
def test_the_object_store_must_work_across_nodes(answer):
    assert verdicts("object-store", probed=result(rank(0), rank(1, object_store=answer))) == ["failed"]


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (STORED, "passed", "/mnt/rayflight"),
        ({**STORED, "wrote": False}, "failed", "could not write"),
        ({**STORED, "read_all": False}, "failed", "does not see what the others wrote"),
        (None, "failed", "no answer"),
    ],
)
def test_every_rank_writes_and_reads_the_same_storage(answer, verdict, words):
    probed = result(rank(0, storage=STORED), rank(1, storage=answer))
    (row,) = rows("storage-shared", probed=probed, asked=spec(**CLAIM))
    assert row.verdict == verdict
    assert words in row.observed


def test_a_cluster_without_gpus_computes_on_its_cpus_by_gloo():
    cpu = {"gpu_ids": [], "devices": [], "compute": CPU_COMPUTE, "collective": collective(backend="gloo")}
    probed, asked = result(rank(0, **cpu), rank(1, **cpu)), spec(group={"gpus": 0})
    for name in ("probe-ran", "compute", "collective"):
        assert set(verdicts(name, probed=probed, asked=asked)) == {"passed"}


def test_a_mixed_cluster_has_a_rank_per_gpu_and_one_per_pod_without():
    groups = [{"name": "gpu", "replicas": 1, "gpus": 1}, {"name": "cpu", "replicas": 1}]
    asked = spec(groups=groups)
    assert verdicts("probe-ran", asked=asked) == ["passed"]
    assert verdicts("probe-ran", probed=result(rank(0)), asked=asked) == ["failed"]


def test_one_node_alone_reads_its_own_blocks():
    alone = rank(0, object_store={"put_get_ok": True, "from_node": "ray-worker-uid-1"})
    (row,) = rows("object-store", probed=result(alone))
    assert (row.verdict, row.expected) == ("passed", "each rank reads what was put")


def test_a_result_without_ranks_passes_nothing():
    probed = result() | {"ranks": []}
    for name in ("probe-ran", "collective", "object-store"):
        assert verdicts(name, probed=probed) == ["failed"]
    assert verdicts("storage-shared", probed=probed, asked=spec(**CLAIM)) == ["failed"]


def test_without_storage_there_is_nothing_to_share():
    assert verdicts("storage-shared") == ["not applicable"]


def test_what_passed_gives_a_healthy_diagnosis():
    assert diagnosis_from_checks(verify_all(spec(), SEEN, result())).verdict == "healthy"


def test_a_missing_device_sends_the_retry_elsewhere():
    found = diagnosis_from_checks(verify_all(spec(), SEEN, result(rank(0), rank(1, devices=[]))))
    assert found.cause.id == "verification-gpu-count"
    assert found.cause.decision is Decision.RETRY_ELSEWHERE
    assert found.cause.layer == "kubernetes"
    assert "node/gpu-2" in found.cause.objects
    assert "[1 of 2]" in found.cause.summary


def test_the_lowest_level_is_the_cause_and_the_rest_follow():
    seen = replace(SEEN, pods=(*SEEN.pods[:2], worker(2, conditions=())))
    found = diagnosis_from_checks(verify_all(spec(), seen, result(rank(0), rank(1, compute=None))))
    assert found.cause.id == "verification-worker-pods-ready"
    assert [item.consequence_of for item in found.consequences] == [("verification-worker-pods-ready",)]


def test_a_claim_that_was_never_true_fails_without_a_retry():
    probed = result(rank(0, simulated=True), rank(1, simulated=True))
    found = diagnosis_from_checks(verify_all(spec(), SEEN, probed))
    assert found.cause.id == "verification-gpu-real"
    assert found.cause.decision is Decision.FAIL


def test_what_could_not_be_seen_is_a_gap_and_blocks_only_where_it_must_be_seen():
    checks = verify_all(spec(), replace(SEEN, nodes=(), gaps=gap("nodes")), result())
    assert blocking(checks) == ()
    found = diagnosis_from_checks(checks)
    assert found.verdict == "healthy"
    assert "nodes-match" in found.gaps[0]
    silent = verify_all(spec(), SEEN, result(rank(0)))
    assert {check.id for check in blocking(silent)} >= {"probe-ran", "gpu-count"}


def test_many_silent_ranks_are_told_in_a_sentence_that_can_be_read():
    mute = [rank(number, failed={"compute": "did not answer within 60 s"}) for number in range(1, 100)]
    (row,) = rows("probe-ran", probed=result(rank(0), *mute))
    assert "99 silent: rank 1" in row.observed
    assert row.observed.endswith("and 96 more")
    assert row.evidence.count("did not answer") == 99  # the matrix has them all
    said = diagnosis_from_checks([row]).sentence()
    assert len(said) < 1200
    assert "and 96 more in verification.json" in said
    assert "run `nvidia-smi` in the pod that is named first" in said
