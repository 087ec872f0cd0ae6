"""Where the driver log of a local cluster is: a driver that holds a GPU runs on a worker's Ray node."""

from __future__ import annotations

from pathlib import Path

from rayflight.backends import local_logs

NAME = "job-driver-rf-1.log"


def trees(folder: Path, **written: str) -> list[dict[str, str]]:
    for tree, text in written.items():
        logs = folder / tree / local_logs.LOGS
        logs.mkdir(parents=True)
        (logs / NAME).write_text(text)
    return [{"folder": str(folder / tree)} for tree in ("head", "worker")]


def test_a_driver_on_the_head_is_read_there(tmp_path: Path):
    assert local_logs.find(NAME, trees(tmp_path, head="all")) == tmp_path / "head" / local_logs.LOGS / NAME


def test_a_driver_on_a_worker_is_not_hidden_by_the_heads_line_about_it(tmp_path: Path):
    found = local_logs.find(NAME, trees(tmp_path, head="Runtime env is setting up.", worker="all"))
    assert found == tmp_path / "worker" / local_logs.LOGS / NAME


def test_a_log_that_nobody_wrote_is_none(tmp_path: Path):
    assert local_logs.find(NAME, trees(tmp_path)) is None
