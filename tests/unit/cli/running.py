"""Runs the console script in this process: what a terminal would see."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from rayflight.cli.main import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Command:
    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capture = patch, capture

    def __call__(self, *words: object) -> Ran:
        self._patch.setattr(sys, "argv", ["rayflight", *(str(word) for word in words)])
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        else:
            code = 0
        seen = self._capture.readouterr()
        return Ran(code, seen.out, seen.err)
