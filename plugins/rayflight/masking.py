"""Masks secrets before anything is written or shown. Pure; the one place that knows what a credential looks like.

Three ways, together: by text (what credentials look like as programs print them), by place (a Secret's data, a variable
or key whose name speaks of one, the word after ``--password``), and by value (what was found by place is masked
wherever else it stands). In text a mask has the length of what it hides, so byte offsets of a log stay true.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MASK = "*****"

_WORD = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token(?!iz)|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|signing[_-]?key"
    r"|shared[_-]?key|encryption[_-]?key|credential|client[_-]?secret|auth[_-]?key|webhook[_-]?url)s?"
)
# ``token: unexpected status``, ``secret: not found``: a plain word after it is an error's prose, and no secret.
_PROSE = r"(?!(?:(?<=token: )|(?<=secret: ))(?-i:[a-z]+)(?:\s|$))"
_WORDS = (
    *("pass", "pwd", "secret", "token", "credential", "webhook"),
    *(
        f"{which}{between}key"
        for which in ("api", "access", "account", "private", "signing", "shared", "encryption", "auth")
        for between in ("", "-", "_")
    ),
)
# Credentials as programs print them: what stands before, and what is hidden. Beside each the words without one of which
# (in any case) it cannot match: to look for them first is what makes megabytes of logs cheap.
_PATTERNS = tuple(
    (re.compile(pattern.encode()), tuple(word.encode() for word in words))
    for pattern, words in (
        (r"(?i)((?:bearer|basic|negotiate)\s+)([A-Za-z0-9._~+/=-]{8,})", ("bearer", "basic", "negotiate")),
        (r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?token\s+)([A-Za-z0-9._-]{8,})", ("authorization",)),
        (
            r"((?:^|\s)(?:-u|--user|--proxy-user)[ =]+[^\s:\"']+:)(?!\d+(?:\s|$))([^\s\"'*]{3,})",
            ("-u", "--user", "--proxy-user"),
        ),
        (r"((?:mysql|mysqldump|mysqladmin|mariadb)\s(?:[^\n]{0,200}\s)?-p)([^\s\"'*]{4,})", ("mysql", "mariadb")),
        (r"(wandb login (?:--relogin )?)([A-Za-z0-9]{20,})", ("wandb login",)),
        (
            (
                rf"(?i)({_WORD}[a-z0-9_-]{{0,20}}\\?[\"']?\s*[=:]\s*\\?[\"']?){_PROSE}"
                r"([^\s\"',;&\\*{}\[\]]{4,})"
            ),
            _WORDS,
        ),
        (rf"(?i)((?<![a-z0-9_-])--?[a-z0-9-]*{_WORD}[a-z0-9-]*\s+[\"']?)([^\s\"'\-*][^\s\"'*]{{3,}})", _WORDS),
        (
            r"(?i)((?:x-amz-signature|x-amz-security-token|x-goog-signature|sig|signature)=)([A-Za-z0-9%+/=_-]{8,})",
            ("sig=", "signature=", "x-amz-security-token="),
        ),
        (r"(?i)((?:set-cookie|cookie):\s*)([^\r\n*]{6,})", ("cookie:",)),
        (r"(://[^/\s:@\"']*:)([^@\s/\"'*]{3,})(?=@)", ("://",)),
        (r"(://)([A-Za-z0-9_-]{20,})(?=@)", ("://",)),
        (r"()((?:AKIA|ASIA)[0-9A-Z]{16})", ("akia", "asia")),
        (
            r"()(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
            ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
        ),
        (
            (
                r"()(hvs\.[A-Za-z0-9_-]{16,}|pypi-[A-Za-z0-9_-]{16,}|glrt-[A-Za-z0-9_-]{16,}"
                r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"
            ),
            ("hvs.", "pypi-", "glrt-", "sg."),
        ),
        (
            r"()(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{20,})",
            ("hf_", "sk-", "xox", "npm_"),
        ),
        (
            r"()(AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{20,}|dckr_pat_[A-Za-z0-9_-]{16,}|dapi[0-9a-f]{30,})",
            ("aiza", "ya29.", "dckr_pat_", "dapi"),
        ),
        (r"()(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,})", ("eyj",)),
        (
            (
                r"(https://(?:hooks\.slack\.com/services/|[a-z0-9.-]*webhook\.office\.com/webhookb2/"
                r"|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/))([A-Za-z0-9/@_-]{10,})"
            ),
            ("hooks.slack.com", "webhook.office.com", "/api/webhooks/"),
        ),
        (r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.+?)(?=-----END|\Z)", ("-----begin ",)),
    )
)
_SECRET_NAME = re.compile(
    rf"(?i){_WORD}|(?:^|_)(?:dsn|auth|pat)$|(?:fernet|licen[cs]e)[_-]?key|dockerconfig|kubeconfig|connection_?string"
)
# Names that speak of where a secret is, how long it lasts or which one is meant.
_ABOUT = re.compile(
    r"(?i)(name|path|file|ref|mode|seconds|mount|type|dir|url_?prefix|version|audience|namespace|policy)$"
)
_KEY_VARIABLE = re.compile(r"[A-Z0-9_]*_KEY")  # a variable in capitals; ``key`` of a taint or a label is another matter
_FLAG = re.compile(rf"(?i)^--?[a-z0-9-]*(?:{_WORD}[a-z0-9-]*|-key)$")
_IDS = re.compile(r"\d+:\d+")  # a user and a group of a container
_LOGIN = ("-u", "--user", "--proxy-user")  # curl's: NAME:PASSWORD follows
_NOISE = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
_PLAIN = re.compile(r"(?i)^(true|false|none|null|yes|no|default|disabled|enabled|token|\d{1,5}|\*+)$")
_LITERAL = re.compile(rb"(?i)true|false|null|none")
_SHORTEST = 6  # characters of a value that is looked for everywhere: shorter ones are words


class Masker:
    """Replaces known secret values and credential-looking text by asterisks of the same length in bytes."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = sorted({item.encode() for item in secrets if len(item) >= 4}, key=len, reverse=True)
        self._known = tuple(values)

    def __call__(self, data: bytes) -> bytes:
        """The same bytes, masked."""
        for value in self._known:
            data = data.replace(value, b"*" * len(value))
        lower = data.lower()
        for pattern, words in _PATTERNS:
            if any(word in lower for word in words):
                data = pattern.sub(_hidden, data)
        return data

    def text(self, text: str) -> str:
        """The same for text."""
        return self(text.encode()).decode(errors="replace")


def _hidden(found: re.Match[bytes]) -> bytes:
    """A literal is no secret, and JSON would be none any more with asterisks in its place."""
    kept = _LITERAL.fullmatch(found.group(2))
    return found.group(0) if kept else found.group(1) + b"*" * len(found.group(2))


def masked(data: Any, masker: Masker | None = None) -> Any:
    """The same JSON without secrets, by place, by text and by value, and without field managers."""
    return _masked(data, masker or Masker(secrets(data)))


def secrets(data: Any) -> frozenset[str]:
    """Values that stand where secrets stand: what a log may repeat."""
    return frozenset(_secrets(data))


def _secrets(data: Any) -> Iterator[str]:
    if isinstance(data, list):
        for before, item in zip([None, *data], data, strict=False):
            if isinstance(item, str) and _follows(before, item):
                yield from _worth(item)
            yield from _secrets(item)
    if not isinstance(data, Mapping):
        return
    if _is_secret(data):
        for value in (*(data.get("data") or {}).values(), *(data.get("stringData") or {}).values()):
            yield from _worth(str(value))
            yield from _worth(_decoded(str(value)))
    for key, value in data.items():
        if _hides(data, key, value):
            yield from _worth(str(value))
        yield from _secrets(_inner(value))


def _worth(text: str) -> Iterator[str]:
    """Worth looking for elsewhere: no everyday word, no number."""
    if len(text) >= _SHORTEST and not _PLAIN.match(text) and not text.isalpha():
        yield text


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""


def _inner(value: Any) -> Any:
    """JSON inside a string (an annotation, a variable) is read as JSON."""
    if isinstance(value, str) and value[:1] in "{[" and len(value) > 1:
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _masked(data: Any, masker: Masker) -> Any:
    if isinstance(data, str):
        inner = _inner(data)
        return masker.text(data) if isinstance(inner, str) else json.dumps(_masked(inner, masker))
    if isinstance(data, list | tuple):
        return [
            MASK if isinstance(item, str) and _follows(before, item) else _masked(item, masker)
            for before, item in zip([None, *data], data, strict=False)
        ]
    if not isinstance(data, Mapping):
        return data
    if _is_secret(data):
        hidden = {part: dict.fromkeys(data[part], MASK) for part in ("data", "stringData") if data.get(part)}
        data = {**data, **hidden}
    return {
        key: MASK if _hides(data, key, value) else _masked(value, masker)
        for key, value in data.items()
        if key not in _NOISE
    }


def _hides(data: Mapping[str, Any], key: Any, value: Any) -> bool:
    """Whether this is a variable's value, or a key, whose name speaks of a secret."""
    if not isinstance(value, str) or not value or _PLAIN.match(value):
        return False
    if key == "value" and isinstance(data.get("name"), str):
        return _speaks(data["name"]) or bool(_KEY_VARIABLE.fullmatch(data["name"]))
    return _speaks(str(key))


def _speaks(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _ABOUT.search(name)


def _follows(before: Any, item: str) -> bool:
    """Whether the word before it announces a secret."""
    if not isinstance(before, str):
        return False
    return bool(_FLAG.match(before)) or (before in _LOGIN and ":" in item and not _IDS.fullmatch(item))


def _is_secret(data: Mapping[str, Any]) -> bool:
    """Also inside a List, whose items may not repeat their kind: Secrets have a type and data."""
    values = isinstance(data.get("data"), Mapping) or isinstance(data.get("stringData"), Mapping)
    return values and (data.get("kind") == "Secret" or ("metadata" in data and isinstance(data.get("type"), str)))
