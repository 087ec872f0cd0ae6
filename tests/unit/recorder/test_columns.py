"""A report shows both layers side by side from what the recorder kept, also what had vanished before the last look."""

from rayflight.diagnosis import report
from rayflight.findings import Decision, Diagnosis, Finding, Layer
from rayflight.recorder import Change, columns
from rayflight.recorder.change import EVENT, GAP, KUBERNETES, RAY, RECORDER, Key
from tests.made_up import at, snapshot


def change(second: float, key: Key, before: str | None, after: str | None, detail: str = "") -> Change:
    return Change(at=at(second), key=key, before=before, after=after, detail=detail)


GONE = change(30, Key(KUBERNETES, "pod", "flight-worker-1"), "Running", None)
DEAD = change(31, Key(RAY, "Ray node", "abcd1234 (10.0.0.2)"), "ALIVE", "DEAD", "node died")
ROUTINE = change(1, Key(KUBERNETES, EVENT, "Pod flight-worker-1"), None, "1", "Scheduled: assigned")
BLIND = change(40, Key(RECORDER, GAP, "events"), None, "unreadable", "events cannot be read: forbidden")
CAUSE = Finding(
    id="worker-pod-lost", title="t", layer=Layer.KUBERNETES, summary="s", next_step="n",
    decision=Decision.WAIT, objects=("pod/flight-worker-1",),
)  # fmt: skip


def test_each_layer_has_its_column():
    told = columns([GONE, DEAD, ROUTINE])
    text = report.markdown(Diagnosis(verdict="cause", cause=CAUSE), [snapshot()], told=told)
    assert f"| {at(30)[11:19]} | pod flight-worker-1 is gone (was Running) |  |" in text
    assert f"| {at(31)[11:19]} |  | Ray node abcd1234 (10.0.0.2): ALIVE → DEAD (node died) |" in text
    assert "assigned" not in text


def test_what_the_recorder_could_not_see_is_said_where_it_would_have_stood():
    jobs = change(41, Key(RECORDER, GAP, "ray.jobs"), None, "unreadable", "ray.jobs cannot be read: no answer")
    told = [(entry.side, entry.text) for entry in columns([BLIND, jobs])]
    assert told == [
        ("kubernetes", "events cannot be read: forbidden"),
        ("ray", "ray.jobs cannot be read: no answer"),
    ]


def test_of_too_many_what_concerns_the_cause_stays():
    many = [change(n, Key(KUBERNETES, "pod", f"p-{n}", "node"), None, "gpu-1") for n in range(100)]
    told = columns([*many, GONE], Diagnosis(verdict="cause", cause=CAUSE), rows=10)
    assert len(told) == 10
    assert any("flight-worker-1 is gone" in entry.text for entry in told)
    assert [entry.at for entry in told] == sorted(entry.at for entry in told)


def test_without_a_recorder_the_moments_tell():
    assert "RayCluster flight created" in report.markdown(Diagnosis(verdict="healthy"), [snapshot()])


def test_a_secret_in_an_event_is_masked():
    leak = change(
        5, Key(KUBERNETES, EVENT, "Pod p"), None, "1", "Failed: token=hf_abcdefghijklmnopqrstuvwxyz0123456789"
    )
    assert "hf_abcdefghijkl" not in columns([leak])[0].text
