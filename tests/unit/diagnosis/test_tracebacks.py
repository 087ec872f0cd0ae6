"""Whose exception it was, and in which line of the user's own code."""

from rayflight.diagnosis.tracebacks import last_crash

TRAIN = """
ray.train.v2.api.exceptions.WorkerGroupError: Training failed due to worker errors:
[Rank 0,2,3 Error Snippet]:
Traceback (most recent call last):
  File "/app/train.py", line 61, in train_func
    dist.all_reduce(x)
RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:1
[Rank 1 Error Snippet]:
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/ray/train/v2/run.py", line 9, in run
    train_func()
  File "/app/data.py", line 7, in batch
    raise ValueError("bad shard")
ValueError: bad shard
"""


def test_the_rank_that_failed_first_is_named_and_not_those_that_lost_it():
    crash = last_crash(TRAIN)
    assert (crash.error, crash.text, crash.ranks) == ("ValueError", "bad shard", "1")
    assert crash.where == "/app/data.py, line 7, in batch"


def test_when_all_ranks_only_lost_one_another_the_first_is_quoted():
    crash = last_crash(TRAIN.partition("[Rank 1")[0])
    assert (crash.error, crash.ranks) == ("RuntimeError", "0,2,3")


def test_a_prefix_of_ray_does_not_hide_a_traceback():
    text = "\n".join(
        f"(RayTrainWorker pid=7, ip=10.0.1.1) {line}"
        for line in ("Traceback (most recent call last):", '  File "/app/a.py", line 3, in f', "KeyError: 'x'")
    )
    assert last_crash(text).where == "/app/a.py, line 3, in f"


def test_the_last_of_a_chain_ended_the_program():
    text = (
        'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\nKeyError: 1\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/app/a.py", line 9, in g\nmy.lib.TrainingFailure: no\n'
    )
    assert (last_crash(text).error, last_crash(text).line) == ("TrainingFailure", 9)


MESSENGER = """
ray.exceptions.RayTaskError(KeyError): ray::_Inner.train() (pid=5, ip=10.0.1.1, actor_id=a)
  File "/opt/lib/python3.11/site-packages/ray/train/_internal/utils.py", line 57, in check
    ray.get(object_ref)
ray.exceptions.RayTaskError(KeyError): ray::_RayTrainWorker__execute.get_next() (pid=7, ip=10.0.1.1, actor_id=b)
  File "/app/train.py", line 133, in loop
    batch["tokens"]
KeyError: 'tokens'

ray.exceptions.RayTaskError(KeyError): ray::_Inner.train() (pid=5, ip=10.0.1.1, actor_id=a)
KeyError: 'tokens'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/train.py", line 207, in main
    trainer.fit()
ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous error messages
"""


def test_a_messenger_is_not_the_error():
    crash = last_crash(MESSENGER)
    assert (crash.error, crash.where) == ("KeyError", "/app/train.py, line 133, in loop")
    alone = "Traceback (most recent call last):" + MESSENGER.rpartition("Traceback (most recent call last):")[2]
    assert last_crash(alone).error == "TrainingFailedError"


def test_a_library_alone_has_no_line_of_the_user():
    text = 'Traceback (most recent call last):\n  File "/x/site-packages/torch/a.py", line 1, in f\nOSError: disk\n'
    assert (last_crash(text).where, last_crash(text).error) == ("", "OSError")


def test_without_a_traceback_there_is_none():
    assert last_crash("ValueError: said by hand") is None
    assert last_crash("") is None


REPORTED = """
(TrainController pid=19) 2026-12-01 14:01:00,101 WARNING worker_group.py:712 -- Polling failed, safe to ignore
(TrainController pid=19) Traceback (most recent call last):
(TrainController pid=19)   File "/app/ray/train/poll.py", line 107, in check_status
(TrainController pid=19) ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.
(RayTrainWorker pid=21) epoch 2 done
"""


def test_a_traceback_that_another_process_reported_did_not_end_a_driver_that_spoke_after_it():
    assert last_crash(f"{REPORTED}Training failed: accuracy 0.76 was NOT reached\n") is None
    assert last_crash(REPORTED).error == "GetTimeoutError"


def test_a_traceback_that_the_driver_itself_only_logged_did_not_end_it():
    logged = (
        'ERROR:root:upload failed\nTraceback (most recent call last):\n  File "/app/a.py", line 1, in f\nKeyError: 1\n'
    )
    assert last_crash(f"{logged}no data: giving up\n") is None
    assert last_crash(f"epoch 1\n{logged.partition('failed')[2].lstrip()}buffered line\n").error == "KeyError"
