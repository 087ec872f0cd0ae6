"""Every manifest stands in a file, so that a change of what is sent to Kubernetes is seen in review."""

from pathlib import Path

import pytest
import yaml

from tests.golden_manifests import GOLDEN, SHAPES, manifest


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.stem)
def test_manifest_is_the_golden_one(shape: Path, request: pytest.FixtureRequest):
    built, golden = manifest(shape), GOLDEN / shape.name
    if request.config.getoption("--regenerate", default=False):
        golden.write_text(yaml.safe_dump(built, sort_keys=False, width=110))
    assert built == yaml.safe_load(golden.read_text())


def test_no_golden_manifest_is_left_over():
    assert {path.name for path in GOLDEN.glob("*.yaml")} == {shape.name for shape in SHAPES}
