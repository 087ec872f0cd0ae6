"""From an Airflow connection to the notifier of its provider. The connection's type chooses; nothing is sent here.

Only what no provider has is written by hand: the generic webhook where the HTTP provider is not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rayflight.alerts import Alert, Kind, render
from rayflight.errors import InvalidSpec

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier, Connection

_ENDS = "see docs/alerts.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One way out. ``conn_id`` names an Airflow connection; the rest is for the kinds of it that need more.

    ``to`` (mail) overrides the connection's extra ``to``; ``form`` (http) is ``json`` or ``teams``; ``endpoint`` (http)
    is what stands behind the connection's host; ``recovery`` False keeps messages of recovery from it.
    """

    conn_id: str
    to: str | tuple[str, ...] = ()
    form: str = "json"
    endpoint: str = ""
    recovery: bool = True

    @classmethod
    def of(cls, given: Channel | str | Mapping[str, Any]) -> Channel:
        """A connection id, or a mapping of the fields. Raises InvalidSpec."""
        if isinstance(given, Channel):
            return given
        fields: dict[str, Any] = {"conn_id": given} if isinstance(given, str) else dict(given)
        if isinstance(fields.get("to"), list):
            fields["to"] = tuple(fields["to"])
        try:
            channel = cls(**fields)
        except TypeError as error:
            raise _refused(str(given), str(error).partition(") ")[2] or str(error)) from None
        if channel.form not in ("json", "teams"):
            raise _refused(channel.conn_id, f"form is {channel.form!r}, it must be json or teams")
        return channel


def notifier(channel: Channel, connection: Connection, alert: Alert) -> BaseNotifier:
    """The provider's notifier with the message in it. Raises InvalidSpec for what cannot be sent that way."""
    kind = connection.conn_type or ""
    if kind not in _MAKERS:
        raise _refused(channel.conn_id, f"connections of type {kind!r} are no channel; there are {', '.join(_MAKERS)}")
    return _MAKERS[kind](channel, connection, alert)


def _slack(channel: Channel, connection: Connection, alert: Alert) -> BaseNotifier:
    make = _provider("slack", "airflow.providers.slack.notifications.slack_webhook", "SlackWebhookNotifier")
    return make(slack_webhook_conn_id=channel.conn_id, text=render.mrkdwn(alert), unfurl_links=False)


def _mail(channel: Channel, connection: Connection, alert: Alert) -> BaseNotifier:
    make = _provider("smtp", "airflow.providers.smtp.notifications.smtp", "SmtpNotifier")
    to = channel.to or connection.extra_dejson.get("to")
    if not to:
        raise _refused(
            channel.conn_id, "nobody is named to write to: set the connection's extra `to`, or the channel's"
        )
    addresses = [to] if isinstance(to, str) else list(to)
    return make(
        smtp_conn_id=channel.conn_id,
        to=[part.strip() for item in addresses for part in item.split(",")],
        subject=render.subject(alert),
        html_content=render.html(alert),
        custom_headers={"X-Rayflight-Fingerprint": alert.fingerprint},
    )


def _http(channel: Channel, connection: Connection, alert: Alert) -> BaseNotifier:
    data = render.as_card(alert) if channel.form == "teams" else render.as_json(alert)
    try:
        make = _provider("http", "airflow.providers.http.notifications", "HttpNotifier")
    except InvalidSpec:
        from rayflight.airflow.webhook import JsonWebhook

        return JsonWebhook(http_conn_id=channel.conn_id, endpoint=channel.endpoint, data=data)
    return make(http_conn_id=channel.conn_id, endpoint=channel.endpoint, json=data)


def _pagerduty(channel: Channel, connection: Connection, alert: Alert) -> BaseNotifier:
    make = _provider("pagerduty", "airflow.providers.pagerduty.notifications.pagerduty", "PagerdutyNotifier")
    return make(
        pagerduty_events_conn_id=channel.conn_id,
        summary=render.subject(alert)[:1024],
        severity="info" if alert.kind is Kind.RECOVERY else "error",
        source=alert.where.node or alert.run.dag_id,
        action="resolve" if alert.kind is Kind.RECOVERY else "trigger",
        dedup_key=alert.fingerprint,
        component=alert.where.pod or None,
        group=alert.run.dag_id,
        class_type=alert.cause,
        custom_details=dict(render.rows(alert)),
        links=[{"href": link.url, "text": link.name} for link in render.links(alert) if link.url.startswith("http")],
    )


def _opsgenie(channel: Channel, connection: Connection, alert: Alert) -> BaseNotifier:
    if alert.kind is Kind.RECOVERY:
        raise _refused(
            channel.conn_id, "its provider's notifier only opens alerts; set recovery=False for this channel"
        )
    make = _provider("opsgenie", "airflow.providers.opsgenie.notifications.opsgenie", "OpsgenieNotifier")
    payload = {
        "message": render.subject(alert)[:130],
        "alias": alert.fingerprint,
        "description": render.text(alert)[:15000],
        "source": alert.run.dag_id,
        "entity": alert.where.node or alert.run.dag_id,
        "tags": ["rayflight", alert.cause],
    }
    return make(opsgenie_conn_id=channel.conn_id, payload=payload)


def _apprise(channel: Channel, connection: Connection, alert: Alert) -> BaseNotifier:
    make = _provider("apprise", "airflow.providers.apprise.notifications.apprise", "AppriseNotifier")
    return make(
        apprise_conn_id=channel.conn_id,
        title=render.subject(alert),
        body=render.markdown(alert),
        body_format="markdown",
        notify_type="success" if alert.kind is Kind.RECOVERY else "failure",
    )


# By the connection's type, as its provider registers it.
_MAKERS: Mapping[str, Callable[[Channel, Connection, Alert], BaseNotifier]] = {
    "slackwebhook": _slack,
    "smtp": _mail,
    "http": _http,
    "pagerduty_events": _pagerduty,
    "opsgenie": _opsgenie,
    "apprise": _apprise,
}


def _provider(name: str, module: str, cls: str) -> Callable[..., BaseNotifier]:
    package = f"apache-airflow-providers-{name}"
    try:
        found: Callable[..., BaseNotifier] = getattr(importlib.import_module(module), cls)
    except (ImportError, AttributeError) as error:
        raise InvalidSpec(
            "No alert can go out through",
            which=package,
            why=f"it is not installed ({error})",
            next_step=f"install {package}",
        ) from None
    return found


def _refused(conn_id: str, why: str) -> InvalidSpec:
    return InvalidSpec("Unusable alert channel", which=repr(conn_id), why=why, next_step=_ENDS)
