"""The docker-archive writer, read back with tarfile as containerd's importer does."""

import hashlib
import io
import json
import os
import socket
import tarfile

import pytest

from testbed import image_tar
from testbed.image_tar import ImageConfig

CONFIG = ImageConfig(tag="docker.io/example/thing:1", command=("/bin/sh",), environment={"USE_LIBUV": "0"})


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_bytes(b"#!/bin/sh\n" + bytes(100_000))
    (root / "bin/tool").chmod(0o4755)
    (root / "bin/also").hardlink_to(root / "bin/tool")
    (root / "lib").symlink_to("bin")
    (root / "doc").mkdir()
    (root / "doc/long").write_text("left out")
    os.utime(root / "bin/tool", (1_700_000_000.75, 1_700_000_000.75))
    return root


def read(archive):
    """Manifest, config, layer digest and the layer's members by name."""
    with tarfile.open(archive) as outer:
        parts = {member.name: outer.extractfile(member).read() for member in outer}
    (manifest,) = json.loads(parts["manifest.json"])
    config, layer = parts[manifest["Config"]], parts[manifest["Layers"][0]]
    assert manifest["Config"] == hashlib.sha256(config).hexdigest() + ".json"
    with tarfile.open(fileobj=io.BytesIO(layer)) as inner:
        members = {member.name: member for member in inner}
    return manifest, json.loads(config), hashlib.sha256(layer).hexdigest(), members


def test_the_config_names_the_digest_of_the_layer_that_is_there(root, tmp_path):
    size = image_tar.write_docker_archive(tmp_path / "image.tar", root, CONFIG)
    manifest, config, digest, members = read(tmp_path / "image.tar")
    assert config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    assert manifest["RepoTags"] == ["docker.io/example/thing:1"]
    assert size > members["bin/tool"].size


def test_the_container_starts_with_what_was_configured(root, tmp_path):
    image_tar.write_docker_archive(tmp_path / "image.tar", root, CONFIG)
    _, config, _, _ = read(tmp_path / "image.tar")
    assert config["config"]["Env"] == ["USE_LIBUV=0"]
    assert config["config"]["Cmd"] == ["/bin/sh"]
    assert config["os"] == "linux"


def test_modes_links_and_whole_seconds_survive(root, tmp_path):
    image_tar.write_docker_archive(tmp_path / "image.tar", root, CONFIG)
    _, _, _, members = read(tmp_path / "image.tar")
    assert members["lib"].linkname == "bin"
    tool, also = members["bin/tool"], members["bin/also"]
    assert also.isreg()
    assert (tool.islnk(), tool.linkname) == (True, "bin/also")
    assert (also.mode, also.mtime) == (0o4755, 1_700_000_000)


def test_what_keep_refuses_is_left_out_with_its_content(root, tmp_path):
    image_tar.write_docker_archive(tmp_path / "image.tar", root, CONFIG, lambda path: path != "doc")
    _, _, _, members = read(tmp_path / "image.tar")
    assert sorted(members) == ["bin", "bin/also", "bin/tool", "lib"]


def test_sockets_are_left_out(root, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "s"))
        image_tar.write_docker_archive(tmp_path / "image.tar", root, CONFIG)
    assert "s" not in read(tmp_path / "image.tar")[3]


def test_the_same_tree_gives_the_same_archive(root, tmp_path):
    for name in ("one.tar", "two.tar"):
        image_tar.write_docker_archive(tmp_path / name, root, CONFIG)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


@pytest.mark.parametrize(("machine", "name"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64")])
def test_architectures_are_spelled_as_registries_do(machine, name):
    assert image_tar.architecture(machine) == name
