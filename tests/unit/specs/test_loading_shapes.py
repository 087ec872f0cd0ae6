"""Shapes are found by name, read from YAML, and refused in words."""

import pytest

from rayflight.errors import InvalidSpec
from rayflight.specs import ClusterSpec, load_cluster, shape_names
from rayflight.specs.loading import FOLDERS_VARIABLE

SHAPE = "image: train:1\ngroups:\n  - name: gpu\n    gpus: 1\n"


def test_name_path_data_and_spec_all_lead_to_the_same_shape(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SHAPE)
    by_name = load_cluster("mine", folder=tmp_path)
    assert by_name.name == "mine"
    assert (
        load_cluster(path)
        == load_cluster(str(path))
        == load_cluster(by_name)
        == load_cluster(by_name.to_dict())
        == by_name
    )


def test_folders_of_the_environment_come_first(tmp_path, monkeypatch):
    (tmp_path / "gpu-2x1.yaml").write_text(SHAPE)
    monkeypatch.setenv(FOLDERS_VARIABLE, str(tmp_path))
    assert load_cluster("gpu-2x1").image == "train:1"
    assert shape_names(folder=tmp_path) == ["gpu-2x1"]


def test_unknown_name_lists_the_known_ones(tmp_path):
    (tmp_path / "mine.yaml").write_text(SHAPE)
    with pytest.raises(InvalidSpec, match="Unknown cluster shape 'yours': known are: mine"):
        load_cluster("yours", folder=tmp_path)


@pytest.mark.parametrize("name", ["../secrets", "/etc/passwd", ".hidden"])
def test_a_name_cannot_walk_the_disk(name, tmp_path):
    with pytest.raises(InvalidSpec, match="Unknown cluster shape"):
        load_cluster(name, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("image: a\nimage: b\n", "the key 'image' stands twice"),
        ("image: [a\n", "No valid YAML"),
        ("", "a mapping is needed, this is empty"),
        ("- image: a\n", "a mapping is needed, this is list"),
        (SHAPE + "replicas: 3\n", "Refused cluster shape mine.yaml: replicas: unknown field"),
    ],
)
def test_bad_file_is_refused_by_name(text, sentence, tmp_path):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InvalidSpec) as refused:
        load_cluster("mine", folder=tmp_path)
    assert sentence in str(refused.value)
    assert "mine.yaml" in str(refused.value)


def test_missing_and_unreadable_files_are_told_apart(tmp_path):
    with pytest.raises(InvalidSpec, match="No such file"):
        load_cluster(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSpec, match="Unreadable file"):
        load_cluster(tmp_path / "binary.yaml")


def test_merge_keys_of_yaml_are_no_duplicates(tmp_path):
    text = "image: a\ngroups:\n  - &base {name: one, gpus: 1}\n  - {<<: *base, name: two}\n"
    (tmp_path / "mine.yaml").write_text(text)
    assert [(group.name, group.gpus) for group in load_cluster("mine", folder=tmp_path).groups] == [
        ("one", 1),
        ("two", 1),
    ]


def test_a_name_given_in_the_file_wins(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: ours\n" + SHAPE)
    assert isinstance(load_cluster("mine", folder=tmp_path), ClusterSpec)
    assert load_cluster("mine", folder=tmp_path).name == "ours"
