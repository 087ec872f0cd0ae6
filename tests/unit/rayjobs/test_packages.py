"""A working_dir becomes a package: the same content the same name, what is ignored stays at home."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from rayflight.errors import InvalidSpec
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.packages import pack
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard

PACKAGE = "/api/packages/gcs/_ray_pkg_1.zip"


def fill(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def test_the_same_content_makes_the_same_bytes_whenever_and_wherever(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one", "b.py", "a.py"), fill(tmp_path / "two", "a.py", "b.py")
    os.utime(two / "a.py", (1, 1))
    assert pack(one) == pack(two)
    assert pack(one).files == ("a.py", "b.py")


def test_another_content_has_another_name(tmp_path: Path) -> None:
    before = pack(fill(tmp_path, "a.py")).name
    (tmp_path / "a.py").write_text("changed")
    assert pack(tmp_path).name != before


def test_a_name_and_its_content_cannot_be_confused(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one", "ab"), fill(tmp_path / "two", "a")
    (one / "ab").write_text("c")
    (two / "a").write_text("bc")
    assert pack(one).name != pack(two).name


def test_a_program_stays_executable(tmp_path: Path) -> None:
    (fill(tmp_path, "run.sh") / "run.sh").chmod(0o755)
    with zipfile.ZipFile(io.BytesIO(pack(tmp_path).archive)) as archive:
        assert archive.infolist()[0].external_attr >> 16 == 0o100755


def test_ignored_files_stay_at_home(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "__pycache__/train.pyc", ".git/HEAD", "data/big.bin", "sub/keep.py", "sub/out.log")
    fill(tmp_path, "sub/deep/out.log")
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / "sub" / ".rayignore").write_text("*.log\n!deep/out.log\n")
    assert pack(tmp_path).files == (".gitignore", "sub/.rayignore", "sub/deep/out.log", "sub/keep.py", "train.py")


def test_a_linked_folder_is_sent_once(tmp_path: Path) -> None:
    fill(tmp_path / "shared", "library.py")
    root = fill(tmp_path / "job", "train.py")
    (root / "library").symlink_to(tmp_path / "shared")
    (tmp_path / "shared" / "back").symlink_to(root)
    assert pack(root).files == ("library/library.py", "train.py")


def test_a_prefix_becomes_part_of_every_name(tmp_path: Path) -> None:
    package = pack(fill(tmp_path, "a.py"), prefix="probe/")
    with zipfile.ZipFile(io.BytesIO(package.archive)) as archive:
        assert archive.namelist() == list(package.files) == ["probe/a.py"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"missing: .*/nowhere"):
        pack(tmp_path / "nowhere")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="no folder"):
        pack(fill(tmp_path, "a.py") / "a.py")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="no file to send"):
        pack(tmp_path)


def test_a_dangling_link_is_named(tmp_path: Path) -> None:
    (fill(tmp_path, "a.py") / "lost").symlink_to(tmp_path / "away")
    with pytest.raises(InvalidSpec, match="lost"):
        pack(tmp_path)


def test_too_much_names_the_largest_files(tmp_path: Path) -> None:
    for name, size in (("small.py", 10), ("weights.pt", 3 * 1024**2), ("data.bin", 2 * 1024**2)):
        (tmp_path / name).write_bytes(b"\0" * size)
    with pytest.raises(
        InvalidSpec, match=r"5\.0 MiB in 3 files, the limit is 4\.0 MiB.*weights\.pt \(3\.0 MiB\), data"
    ):
        pack(tmp_path, max_bytes=4 * 1024**2)


async def test_a_package_that_ray_has_is_not_sent_again(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("GET", PACKAGE, Answer(body=b""))
    assert await jobs.upload_package("_ray_pkg_1.zip", b"zip") == "gcs://_ray_pkg_1.zip"
    assert [seen.method for seen in dashboard.seen] == ["GET"]


async def test_a_new_package_is_sent_whole(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("GET", PACKAGE, Answer(status=404, body="Package gcs://_ray_pkg_1.zip does not exist"))
    dashboard.answer("PUT", PACKAGE, Answer(body=b""))
    await jobs.upload_package("_ray_pkg_1.zip", b"zip")
    assert [(seen.method, seen.body) for seen in dashboard.seen] == [("GET", b""), ("PUT", b"zip")]
