"""A large folder is diagnosed within 3 s and 300 MB. CPU seconds: how busy the machine is must not decide a test."""

from dev.bench_diagnose import MEGABYTES, SECONDS, measure, write_folder


def test_five_hundred_pods_and_twenty_thousand_events_are_diagnosed_in_time(tmp_path):
    cost = measure(write_folder(tmp_path / "case", pods=500, events=20_000))
    assert cost.code == 1, "the folder holds a cause"
    assert cost.cpu <= SECONDS
    assert cost.megabytes <= MEGABYTES
