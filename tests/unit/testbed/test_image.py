"""The recipe of the images: what is kept, how the cache is keyed, where the mirror comes from."""

import doctest

import pytest

from testbed import image, image_rootfs
from testbed.errors import TestbedError


@pytest.mark.parametrize(
    "path",
    [
        "usr/bin/bash",
        "usr/lib/python3/dist-packages/torch/bin/torch_shm_manager",
        "usr/lib/x86_64-linux-gnu/libtorch_cpu.so.2.6.0",
        "usr/lib/x86_64-linux-gnu/libz3.so.4",
        "usr/local/lib/python3.13/dist-packages/ray/core/src/ray/raylet/raylet",
        "usr/local/lib/python3.13/dist-packages/pyarrow/libarrow_substrait.so.2600",
        "usr/local/lib/python3.13/dist-packages/ray/train/__pycache__/__init__.cpython-313.pyc",
        "usr/lib/python3/dist-packages/torch/testing",
        "tmp",
    ],
)
def test_what_ray_and_pytorch_need_is_kept(path):
    assert image.keeps(path)


@pytest.mark.parametrize(
    "path",
    [
        "usr/share/doc",
        "usr/lib/x86_64-linux-gnu/libLLVM-17.so.1",
        "usr/lib/python3/dist-packages/torch/bin/test_api",
        "usr/lib/python3/dist-packages/torch/bin/FileStoreTest",
        "usr/local/lib/python3.13/dist-packages/pandas/tests",
        "usr/lib/x86_64-linux-gnu/libc.a",
    ],
)
def test_what_nothing_reads_is_left_out(path):
    assert not image.keeps(path)


def test_an_image_in_the_cache_is_not_built_again(tmp_path):
    for path, build in (
        (image.ray_image_path(tmp_path), image.build_ray_image),
        (image.pause_image_path(tmp_path), image.build_pause_image),
    ):
        path.touch()
        assert build(tmp_path, pytest.fail) == path


def test_another_recipe_has_another_name(tmp_path, monkeypatch):
    before = image.ray_image_path(tmp_path)
    monkeypatch.setattr(image, "SKIPPED", ("usr/games",))
    assert image.ray_image_path(tmp_path) != before


def test_the_mirror_is_the_main_debian_archive_that_apt_uses():
    sites = "http://mirror.example/debian-security bookworm-security\nhttp://mirror.example/debian bookworm\n"
    assert image_rootfs.debian_mirror(sites) == "http://mirror.example/debian"


@pytest.mark.parametrize("sites", ["", "http://mirror.example/ubuntu noble\n", "cdrom:[x] bookworm\n"])
def test_without_a_debian_archive_the_choice_is_left_to_debootstrap(sites):
    assert image_rootfs.debian_mirror(sites) is None


def test_console_scripts_get_the_interpreter_of_the_image():
    assert doctest.testmod(image_rootfs) == (0, 2)


def test_a_native_program_among_the_scripts_stays_as_it_is():
    assert image_rootfs.with_image_shebang(b"\x7fELF\npython\n") == b"\x7fELF\npython\n"


def test_a_failed_step_is_named_with_the_end_of_its_log(tmp_path):
    with pytest.raises(TestbedError, match=r"(?s)unpack failed with exit code 3.*no space here"):
        image_rootfs.run(["sh", "-c", "echo no space here; exit 3"], tmp_path / "log", "unpack")


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(TestbedError, match="unpack: no-such-program is not installed"):
        image_rootfs.run(["no-such-program"], tmp_path / "log", "unpack")
