"""Writes docs/verification/: a page per check and their index. ``python -m dev.verification_pages``."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from rayflight.findings import Decision
from rayflight.verification.catalogue import CHECKS, LEVELS, Meaning
from rayflight.verification.outcome import decision_of, must_be_seen

FOLDER = Path(__file__).parents[1] / "docs" / "verification"
DECISIONS = {
    Decision.FAIL: "the run fails: a retry cannot mend it",
    Decision.RETRY_ELSEWHERE: "a retry takes a new cluster: this node or device is bad",
}


def pages() -> dict[str, str]:
    """File name → text."""
    return {"index.md": index(), **{f"{check.id}.md": page(check) for check in CHECKS}}


def page(check: Meaning) -> str:
    unseen = "the task fails" if must_be_seen(check.id) else "it is said, and forbids nothing unless `strict` is set"
    text = f"""# {check.id}

Level {check.level}, {LEVELS[check.level].lower()}. Generated from `rayflight/verification/catalogue.py`.

**What.** {check.what}

**Why.** {check.why}

**How it is measured.** {check.how}

**What to do.** {check.then}

When it fails: {DECISIONS[decision_of(check.id)]}. When it could not be checked: {unseen}.
"""
    return "".join(f"{fill(line, 120, break_on_hyphens=False)}\n" for line in text.splitlines())


def index() -> str:
    lines = [
        "# The verification matrix",
        "",
        "Before anything trains, each of these is checked in the very worker pods that will train. Generated from",
        "`rayflight/verification/catalogue.py`; how Ray's words and KubeRay's go together: [mapping.md](mapping.md).",
        "",
        "Verdicts: *passed*; *failed*; *warned* (worth a look, forbids nothing); *unknown* (not checked, and why: it",
        "never counts as passed, and fails under `verification: {strict: true}`); *not applicable*.",
    ]
    for level, title in LEVELS.items():
        lines += ["", f"## {level}. {title}", ""]
        for check in CHECKS:
            if check.level == level:
                text = f"* [{check.id}]({check.id}.md): {check.what}"
                lines.append(fill(text, 120, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines) + "\n"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
