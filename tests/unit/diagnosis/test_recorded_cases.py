"""Recorded clusters, several moments each: what a real API server and a real Ray said, and the one cause of it."""

import json
import re

import pytest

from rayflight.archive.dumps import read
from rayflight.diagnosis import diagnose, diagnose_moments, findings
from rayflight.diagnosis.catalogue import RULES
from tests.folders import write
from tests.moments import moment, names
from tests.perturb import Seen
from tests.unit.diagnosis.asking import conforms, falls_silent

# (cause, layer, decision, must be said, must not be said)
CASES = {
    "healthy": ("", "", "", (), ()),
    "too-few-gpus": ("not-enough-in-total", "kubernetes", "fail", ("GPU|gpu", "not enough|needs"), ("quota", "taint")),
    "quota-of-one-gpu": (
        "quota-below-request",
        "kubernetes",
        "fail",
        ("gpu-quota",),
        ("insufficient nvidia", "unschedulable"),
    ),
    "tainted-gpu-node": ("taint-not-tolerated", "kubernetes", "fail", ("taint", "tolerat"), ("quota",)),
    "image-not-found": ("image-registry-unknown", "kubernetes", "fail", ("image", "pull"), ("crash",)),
    "min-above-max": ("min-above-max", "user", "fail", ("minReplicas",), ()),
    "worker-bad-flag": ("crash-loop", "user", "fail", ("exited.{0,20}2",), ("OOM", "GCS")),
    "worker-pod-deleted": ("worker-pod-lost", "kubernetes", "", ("pod", "delet"), ("OOM",)),
    "head-pod-deleted": ("head-pod-lost", "kubernetes", "retry_elsewhere", ("head", "delet"), ("OOM",)),
    "exit-code-seven": ("entrypoint-failed", "user", "fail", ("7",), ("OOM", "node")),
    "no-such-command": ("entrypoint-not-found", "user", "fail", ("127|not found",), ()),
    "operator-paused": ("operator-absent", "kuberay", "retry_after", ("operator",), ("invalid spec",)),
    "auth-options-dropped": ("fields-dropped-by-crd", "kuberay", "fail", ("authOptions", "token"), ()),
}


def family(case):
    return [name for name in names() if name.rpartition("-t")[0] == case]


@pytest.mark.parametrize("case", [case for case in CASES if case != "healthy"])
def test_a_recorded_fault_has_its_cause(case):
    cause, layer, decision, must, must_not = CASES[case]
    found = diagnose_moments([moment(name) for name in family(case)]).cause
    assert (found.id, found.layer) == (cause, layer)
    assert not decision or found.decision == decision
    said = json.dumps([found.title, found.summary, [item.text for item in found.evidence]])
    assert all(re.search(words, said, re.IGNORECASE) for words in must)
    assert not any(re.search(words, f"{found.title} {found.summary}", re.IGNORECASE) for words in must_not)


def test_a_recorded_healthy_cluster_is_healthy():
    assert diagnose_moments([moment(name) for name in family("healthy")]).verdict == "healthy"


def test_every_recorded_moment_belongs_to_a_case():
    assert {name for case in CASES for name in family(case)} == set(names())


@pytest.mark.parametrize("name", names())
def test_each_finding_about_a_recorded_moment_falls_silent_without_what_it_quotes(name):
    siblings = family(name.rpartition("-t")[0])
    before = moment(siblings[0]) if siblings[0] != name else None
    for finding in findings(diagnose(moment(name))):
        conforms(finding)
        falls_silent(Seen(moment(name), {}), finding)

    for finding in findings(diagnose(moment(name), previous=before)):
        conforms(finding)
        falls_silent(Seen(moment(name), {"previous": before}), finding)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("source", ["pods", "events", "nodes", "rayclusters", "ray/nodes", "ray/jobs", "ray/version"])
def test_no_rule_breaks_where_a_part_could_not_be_read(name, source):
    seen = moment(name, **{source.replace("/", "__"): {"error": "forbidden"}})
    names_of_rules = {given for rule in RULES for given in rule.ids}
    assert {finding.id for finding in findings(diagnose_moments([seen]))} <= names_of_rules


def test_a_folder_of_the_recorded_moments_gives_the_same(tmp_path):

    place = write(tmp_path / "case", *family("auth-options-dropped"))
    assert diagnose_moments(read(place).moments).cause.id == "fields-dropped-by-crd"
