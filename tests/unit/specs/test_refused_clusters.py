"""Bad cluster shapes: each is refused in one sentence that names what, which and the next step."""

from typing import Any

import pytest

from rayflight.errors import InvalidSpec
from rayflight.specs import ClusterSpec

GROUP: dict[str, Any] = {"name": "gpu", "replicas": 2, "gpus": 1}
SHAPE: dict[str, Any] = {"image": "train:1", "ray_version": "2.60.0", "groups": [GROUP]}


def group(**changes: Any) -> dict[str, Any]:
    return {**SHAPE, "groups": [{**GROUP, **changes}]}


def pod(**fields: Any) -> dict[str, Any]:
    return {**SHAPE, "head": fields}


REFUSED = {
    "unknown field": (group(replica=1), "groups.0.replica: unknown field, did you mean 'replicas'?"),
    "unknown field at the top": ({**SHAPE, "imagee": "x"}, "imagee: unknown field, did you mean 'image'?"),
    "negative GPUs": (group(gpus=-1), "groups.0.gpus: Input should be greater than or equal to 0, got -1"),
    "min above max": (
        group(min_replicas=3, max_replicas=1),
        "group 'gpu': min_replicas 3 is above max_replicas 1",
    ),
    "replicas above max": (
        group(min_replicas=0, max_replicas=1),
        "replicas 2 is not between min_replicas 0 and max_re",
    ),
    "duplicate group": ({**SHAPE, "groups": [GROUP, GROUP]}, "group name 'gpu' stands twice"),
    "no group": ({**SHAPE, "groups": []}, "at least one worker group is needed"),
    "group named like the head": (group(name="headgroup"), "'headgroup' is KubeRay's name for the head"),
    "group name no DNS label": (group(name="GPU_pool"), "'GPU_pool' must start with a letter and hold only a-z"),
    "group name too long": (group(name="g" * 64), "has 64 characters, at most 63 are allowed"),
    "no image": ({"groups": [GROUP]}, "image: required (for the cluster, or for head and group 'gpu')"),
    "memory without a unit": (group(memory=4), "'4' is less than 64Mi: memory without a unit means bytes"),
    "memory in another spelling": (group(memory="4GB"), "'4GB' is not a Kubernetes quantity"),
    "no CPU": (group(cpu=0), "'0' must be above zero"),
    "GPUs only claimed": (
        group(ray_start_params={"num-gpus": 4}),
        "num-gpus 4 would only claim GPUs; set gpus (now 1)",
    ),
    "GPU resource without a vendor": (group(gpu_resource="gpu"), "'gpu' is no extended resource"),
    "GPUs on the head": (pod(ray_start_params={"num-gpus": 1}), "the head offers no GPU"),
    "CPUs of the head by flag": (pod(ray_start_params={"num-cpus": 1}), "set by the field num_cpus"),
    "object store in words": (pod(ray_start_params={"object-store-memory": "4Gi"}), "must be a whole number of bytes"),
    "second way to a field": (group(extra={"numOfHosts": 2}), "numOfHosts has a field of its own, 'hosts_per_replica'"),
    "second way to the groups": ({**SHAPE, "extra": {"workerGroupSpecs": []}}, "has a field of its own, 'groups'"),
    "mount without volume": (
        pod(volume_mounts=[{"name": "data", "mountPath": "/data"}]),
        "head mounts volume 'data', which volumes does not have",
    ),
    "two mounts at one path": (
        pod(volume_mounts=[{"name": "a", "mountPath": "/d"}, {"name": "b", "mountPath": "/d"}]),
        "every mount needs a name and a mountPath of its own",
    ),
    "variable given twice": (
        pod(env={"A": "1"}, env_from_secrets={"A": {"secret": "s", "key": "k"}}),
        "A stands in env and in env_from_secrets",
    ),
    "secret and config map at once": (
        pod(env_from=[{"secret": "s", "config_map": "c"}]),
        "name either a secret or a config_map",
    ),
    "toleration of nothing": (group(tolerations=[{"operator": "Equal"}]), "operator Equal needs a key"),
    "grace of nothing": (
        {**SHAPE, "termination_grace_seconds": 0},
        "termination_grace_seconds: Input should be greater",
    ),
    "token without version": (
        {"image": "x", "groups": [GROUP], "auth": "token"},
        "auth: token needs ray_version (2.52.0 or later)",
    ),
    "token on an old Ray": ({**SHAPE, "ray_version": "2.46.0", "auth": "token"}, "ray_version is 2.46.0"),
    "token set by hand": (
        {**SHAPE, "auth": "token", "env": {"RAY_AUTH_TOKEN": "x"}},
        "head sets RAY_AUTH_TOKEN, which auth: token sets itself",
    ),
    "idle timeout without autoscaler": (
        group(idle_timeout_seconds=60),
        "of group 'gpu' needs an autoscaler of version v2",
    ),
    "overrides of nothing": (
        {**SHAPE, "overrides": {"spec": {}}},
        "overrides change a raw_manifest, and there is none",
    ),
    "storage of no kind": ({**SHAPE, "storage": {"bucket": "b"}}, "storage: name either a `claim`"),
}


@pytest.mark.parametrize(("data", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_shape_is_refused_in_one_sentence(data, sentence):
    with pytest.raises(InvalidSpec) as refused:
        ClusterSpec.parse(data, which="cluster shape x.yaml")

    text = str(refused.value)
    assert sentence in text
    assert text.startswith("Refused cluster shape x.yaml: ")
    assert text.endswith("Next: correct this and try again; nothing was created")
    assert "\n" not in text


def test_all_faults_are_named_at_once():
    with pytest.raises(InvalidSpec) as refused:
        ClusterSpec.parse(group(gpus=-1, replicas=-1, memory="lots"))
    for field in ("groups.0.gpus", "groups.0.replicas", "groups.0.memory"):
        assert field in str(refused.value)


def test_building_by_keyword_refuses_in_the_same_words():
    with pytest.raises(InvalidSpec, match="Refused ClusterSpec: image: required"):
        ClusterSpec(groups=(GROUP,))  # type: ignore[arg-type]


def test_good_shape_passes_and_cannot_be_changed_afterwards():
    spec = ClusterSpec.parse(SHAPE)
    assert (spec.worker_pods, spec.gpus, spec.warnings()) == (2, 2, [])
    with pytest.raises(Exception, match="frozen"):
        spec.image = "other"  # type: ignore[misc]
