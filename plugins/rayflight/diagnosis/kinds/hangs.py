"""Kinds of trainings that stay RUNNING while nothing moves. What the job's ``on_hang`` says decides."""

from __future__ import annotations

from rayflight.diagnosis.kind import Kind, kinds
from rayflight.findings import Decision, Layer

_AS_ASKED = (Decision.WAIT, Decision.FAIL, Decision.RETRY_ELSEWHERE)

KINDS: tuple[Kind, ...] = (
    *kinds(
        Layer.USER,
        (
            ("rank-stuck", "A rank stands still elsewhere, the others wait for it", _AS_ASKED,
             "two samples of all stacks are alike, and one rank stands at another place than the rest",
             "it waits for what does not come: input data, a lock, a file, another service",
             "look at the frame that is named: a rank that never comes to the collective keeps all others in it"),
            ("collectives-out-of-step", "Ranks wait in different collectives", _AS_ASKED,
             "two samples of all stacks are alike, and ranks stand in collectives called at different places",
             "a rank skipped a collective, or called another one: mostly a condition that is not the same on all ranks",
             "compare the calls that are named: every rank must come to every collective, in the same order"),
            ("training-stands-still", "All processes of the training stand at one place", _AS_ASKED,
             "two samples of all stacks are alike, and no process stands elsewhere",
             "what all wait for is outside: a network between them, storage, a service, a lock",
             "look at the frame that is named, and at what it waits for"),
            ("rank-slow", "The others wait for a rank that moves on", Decision.WAIT,
             "the others stand in a collective, one rank's stack changes between two samples",
             "more work than the others have, a slower device, slow input; or a loop that never ends",
             "compare that rank's input and device with the others'; it is not stuck"),
        ),
    ),
    *kinds(
        Layer.RAY,
        (
            ("rank-stopped", "A training process is stopped (state T)", _AS_ASKED,
             "py-spy finds the process in a stop, or the kernel says state T",
             "SIGSTOP from a person, a debugger that was left attached, or a tool that freezes processes",
             "send it SIGCONT (`kill -CONT`) in its pod, and find out who stopped it"),
            ("rank-does-not-answer", "A training process gives no stack while the others do", _AS_ASKED,
             "two questions for its stack without an answer while other processes answered",
             "held in the kernel (state D: storage or a device driver), or gone without Ray's notice",
             "look at the process in its pod (state in /proc), the node's kernel log, its GPU and its storage"),
        ),
    ),
)  # fmt: skip
