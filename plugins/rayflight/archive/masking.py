"""Masks secrets before anything is written. Pure. A mask has the length of what it hides, so byte offsets stay true."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Credentials as programs print them: `Authorization: Bearer x`, `password=x`, `"api_key": "x"`, AWS key ids.
_PATTERNS = (
    re.compile(rb"(?i)(bearer\s+)([A-Za-z0-9._~+/=-]{8,})"),
    re.compile(
        rb"(?i)((?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential)s?[\"']?\s*[=:]\s*[\"']?)"
        rb"([^\s\"',;]{6,})"
    ),
    re.compile(rb"()(AKIA[0-9A-Z]{16})"),
    re.compile(rb"()(gh[pousr]_[A-Za-z0-9]{20,})"),
    re.compile(rb"(://[^/\s:@]+:)([^@\s/]{3,})(?=@)"),
)


class Masker:
    """Replaces known secret values and credential-looking text by asterisks of the same length in bytes."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = sorted({item.encode() for item in secrets if len(item) >= 4}, key=len, reverse=True)
        self._known = tuple(values)

    def __call__(self, data: bytes) -> bytes:
        """The same bytes, masked."""
        for value in self._known:
            data = data.replace(value, b"*" * len(value))
        for pattern in _PATTERNS:
            data = pattern.sub(lambda found: found.group(1) + b"*" * len(found.group(2)), data)
        return data

    def text(self, text: str) -> str:
        """The same for text."""
        return self(text.encode()).decode(errors="replace")
