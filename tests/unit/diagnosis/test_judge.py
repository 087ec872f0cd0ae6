"""The earliest deepest finding is the cause, the rest follow from it or stand aside."""

from dataclasses import replace

from rayflight.diagnosis import decisive, diagnose
from rayflight.diagnosis.case import Depth, Rule
from rayflight.diagnosis.catalogue import RULES
from rayflight.findings import Decision, Diagnosis, Finding, Layer
from rayflight.states import JobStatus
from tests.made_up import at, gap, head, job, pending, ray, snapshot, worker
from tests.moments import moment


def finding(name, *, layer=Layer.KUBERNETES, decision=Decision.FAIL, objects=(), since=None):
    return Finding(
        id=name, title=name, layer=layer, summary=name, next_step="x", decision=decision, objects=objects, since=since
    )


def rule(depth, *found):
    return Rule(ids=tuple(item.id for item in found), depth=depth, check=lambda _: found)


def judged(*rules, seen=None, **noted):
    return diagnose(seen or snapshot(), rules=rules, **noted)


def test_a_healthy_cluster_is_healthy():
    found = diagnose(snapshot())
    assert (found.verdict, found.cause, found.facts) == ("healthy", None, ())
    assert diagnose(moment("healthy-t027s")).verdict == "healthy"
    assert diagnose(moment("healthy-t060s")).verdict == "healthy"


def test_what_no_rule_explains_is_unknown_with_facts_and_gaps():
    found = diagnose(snapshot(ray=ray(head(), worker(1)), gaps=gap("nodes")))
    assert found.verdict == "unknown"
    assert "worker-2 runs, but is not ALIVE" in found.facts[0]
    assert found.gaps == ("nodes: forbidden",)
    assert "The cause is unknown" in found.sentence()


def test_a_failed_job_without_an_explanation_is_unknown_and_not_healthy():
    seen = snapshot(ray=ray(*snapshot().pods, jobs=(job(JobStatus.FAILED, message="?"),)))
    assert judged(seen=seen).verdict == "unknown"


def test_the_deeper_of_two_on_one_object_is_the_cause():
    deep, shallow = finding("node", objects=("pod/a",)), finding("loop", objects=("pod/a", "pod/b"))
    found = judged(rule(Depth.CONTAINER, shallow), rule(Depth.NODE, deep))
    assert found.cause.id == "node"
    assert found.consequences[0].consequence_of == ("node",)


def test_two_that_share_no_object_stand_side_by_side():
    found = judged(rule(Depth.CONTAINER, finding("loop", objects=("pod/b",))), rule(Depth.NODE, finding("node")))
    assert found.consequences[0].consequence_of == ()


def test_what_came_later_explains_nothing():
    late, early = finding("node", objects=("pod/a",), since=at(60)), finding("loop", objects=("pod/a",), since=at(10))
    found = judged(rule(Depth.NODE, late), rule(Depth.CONTAINER, early))
    assert all(item.consequence_of == () for item in found.consequences)


def test_of_equal_depth_the_earlier_is_the_cause():
    found = judged(rule(Depth.NODE, finding("late", since=at(30)), finding("early", since=at(20))))
    assert found.cause.id == "early"


def test_what_ends_a_wait_comes_before_what_is_waited_for():
    found = judged(
        rule(Depth.NODE, finding("wait", decision=Decision.WAIT)), rule(Depth.CONTAINER, finding("fail", since=at(1)))
    )
    assert found.cause.id == "fail"
    assert [item.id for item in decisive(found)] == ["fail"]


def test_what_follows_from_something_that_is_waited_for_does_not_end_the_wait():
    wait = finding("wait", decision=Decision.WAIT, objects=("pod/a",))
    found = judged(rule(Depth.NODE, wait), rule(Depth.CONTAINER, finding("fail", objects=("pod/a",))))
    assert decisive(found) == ()
    assert found.cause.id == "wait"


def test_a_healthy_diagnosis_ends_nothing():
    assert decisive(diagnose(snapshot())) == ()
    assert decisive(diagnose(snapshot(pods=(head(), worker(1), pending(2))))) == ()


def test_a_diagnosis_survives_json():
    found = diagnose(moment("head-pod-deleted-t056s"), previous=moment("head-pod-deleted-t000"))
    assert found.consequences
    assert Diagnosis.from_dict(found.to_dict()) == found


def test_ids_are_words_and_belong_to_one_depth_each():
    depths: dict[str, set[Depth]] = {}
    for item in RULES:
        for name in item.ids:
            assert name == name.lower()
            assert " " not in name
            depths.setdefault(name, set()).add(item.depth)
    assert all(len(found) == 1 for found in depths.values())


def test_rules_give_only_the_ids_that_they_name():
    names = {name for item in RULES for name in item.ids}
    for name in ("head-pod-deleted-t056s", "too-few-gpus-t046s", "worker-bad-flag-t066s", "quota-of-one-gpu-t044s"):
        found = diagnose(moment(name))
        assert found.cause.id in names


def test_no_rule_speaks_about_an_empty_snapshot():
    empty = replace(snapshot(), cluster=None, pods=(), nodes=(), ray=None, gaps=gap("cluster"))
    assert diagnose(empty).verdict == "unknown"
