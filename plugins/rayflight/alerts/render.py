"""The four forms of an alert: plain text, Markdown, HTML, JSON (and the card that Teams takes). Same facts in all."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from rayflight.alerts.message import Alert, Kind, Link


def rows(alert: Alert) -> Iterator[tuple[str, str]]:
    """Label and text, in reading order; what is not known has no row."""
    yield from (
        (label, value)
        for label, value in (
            ("What", alert.what),
            ("Expected", alert.expected),
            ("Observed", alert.observed),
            ("Where", str(alert.where)),
            ("Since", _since(alert)),
            ("Next", alert.next_step),
            ("Also", "; ".join(alert.also)),
            ("Run", str(alert.run)),
        )
        if value
    )


def subject(alert: Alert) -> str:
    """One line."""
    node = f" on node {alert.where.node}" if alert.where.node and alert.where.node not in alert.title else ""
    times = f" ({alert.count} times)" if alert.count > 1 else ""
    return " ".join(f"{alert.title}{node}{times}".split())


def text(alert: Alert) -> str:
    """For a terminal, a pager or the plain part of a mail."""
    lines = [subject(alert), "", *(f"{label + ':':<10} {value}" for label, value in rows(alert))]
    lines += [f"{link.name + ':':<10} {link.url}" for link in links(alert)]
    return "\n".join(lines)


def markdown(alert: Alert) -> str:
    """CommonMark; what was observed is quoted as it is, and cannot become markup."""
    lines = [f"**{_md(subject(alert))}**", "", *(f"- **{label}:** {_md(value)}" for label, value in rows(alert))]
    shown = " · ".join(
        f"[{_md(link.name)}](<{link.url}>)" if _web(link.url) else f"{_md(link.name)}: `{link.url}`"
        for link in links(alert)
    )
    return "\n".join([*lines, *(["", shown] if shown else [])])


def mrkdwn(alert: Alert) -> str:
    """Slack's own markup, which is no Markdown."""
    lines = [f"*{_slack(subject(alert))}*", *(f"*{label}:* {_slack(value)}" for label, value in rows(alert))]
    lines += [
        f"<{link.url}|{_slack(link.name)}>" if _web(link.url) else f"{link.name}: {link.url}" for link in links(alert)
    ]
    return "\n".join(lines)


def html(alert: Alert) -> str:
    """A mail: one table, no style sheet, no image."""
    colour = "#1a7f37" if alert.kind is Kind.RECOVERY else "#b42318"
    cells = "".join(
        f'<tr><th align="left" valign="top">{escape(label)}</th><td>{escape(value)}</td></tr>'
        for label, value in rows(alert)
    )
    shown = " · ".join(
        f'<a href="{escape(link.url, quote=True)}">{escape(link.name)}</a>'
        if _web(link.url)
        else f"{escape(link.name)}: <code>{escape(link.url)}</code>"
        for link in links(alert)
    )
    return (
        f'<h3 style="color:{colour}">{escape(subject(alert))}</h3><table cellpadding="4">{cells}</table><p>{shown}</p>'
    )


def as_json(alert: Alert) -> dict[str, Any]:
    """For machines: the alert's own fields, and the text beside them."""
    return {**alert.to_dict(), "text": text(alert)}


def as_card(alert: Alert) -> dict[str, Any]:
    """An Adaptive Card, as workflows of Microsoft Teams take it at their webhook."""
    card = {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.4",
        "body": [
            {
                "type": "TextBlock",
                "text": subject(alert),
                "weight": "bolder",
                "wrap": True,
                "color": "good" if alert.kind is Kind.RECOVERY else "attention",
            },
            {"type": "FactSet", "facts": [{"title": label, "value": value} for label, value in rows(alert)]},
        ],
        "actions": [
            {"type": "Action.OpenUrl", "title": link.name, "url": link.url} for link in links(alert) if _web(link.url)
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def links(alert: Alert) -> Iterator[Link]:
    """The run first, then what else there is to open."""
    if alert.run.url:
        yield Link(name="Airflow", url=alert.run.url)
    yield from (link for link in alert.links if link.url)


def _since(alert: Alert) -> str:
    if alert.kind is Kind.RECOVERY:
        return f"{alert.since}, over at {alert.at}" if alert.since else alert.at
    seen = f", seen {alert.count} times" if alert.count > 1 else ""
    return f"{alert.since}{seen}" if alert.since else ""


def _web(url: str) -> bool:
    return url.startswith(("https://", "http://"))


def _md(value: str) -> str:
    plain = " ".join(value.split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|~" else char for char in plain)


def _slack(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
