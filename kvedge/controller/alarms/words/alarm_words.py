"""Alarms as receivers are told of them: a document for a program, Alertmanager's for a webhook, and a mail.

Called by the tellers. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.alarm_state import Alarm, State
from kvedge.resources.codec import JsonObject
from kvedge.runtime.clock import rfc3339

# Of the hook's document; a field that is added does not change it.
_VERSION: Final = 1
# What Alertmanager says of one that has not ended.
_NO_END: Final = "0001-01-01T00:00:00Z"
_LONGEST_SUBJECT: Final = 120


def hook_document(alarm: Alarm, site: str, now: datetime) -> JsonObject:
    """What the site's program reads."""
    return {
        "version": _VERSION,
        "state": str(alarm.state),
        "box": site,
        "time": rfc3339(now),
        "kind": alarm.kind,
        "namespace": alarm.namespace,
        "name": alarm.name,
        "reason": alarm.reason,
        "message": alarm.message,
        "alarm": alarm.rule,
        "severity": str(alarm.severity),
        "remedy": RULES[alarm.rule].remedy,
    }


def webhook_document(alarms: Sequence[Alarm], receiver: str, site: str) -> JsonObject:
    """What Alertmanager would send (version 4), all alarms as one group."""
    alerts = [_alert(each, site) for each in alarms]
    return {
        "version": "4",
        "groupKey": f'{{}}:{{box="{site}"}}',
        "truncatedAlerts": 0,
        "status": "firing" if any(each.state == State.FIRING for each in alarms) else "resolved",
        "receiver": receiver,
        "groupLabels": {"box": site},
        "commonLabels": _common([each["labels"] for each in alerts]),
        "commonAnnotations": _common([each["annotations"] for each in alerts]),
        "externalURL": "",
        "alerts": alerts,
    }


def mail_message(alarms: Sequence[Alarm], sender: str, recipients: Sequence[str], site: str, now: datetime) -> bytes:
    """One mail that tells of all of them."""
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = _subject(alarms, site)
    message["Date"] = format_datetime(now)
    stamp = hashlib.sha256(repr((site, now, [each.key for each in alarms])).encode()).hexdigest()[:32]
    message["Message-ID"] = f"<{stamp}@{sender.rpartition('@')[2]}>"
    # No out-of-office answer comes back (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(_mail_lines(alarms, site)), cte="base64")
    return message.as_bytes()


def _subject(alarms: Sequence[Alarm], site: str) -> str:
    firing = [each for each in alarms if each.state == State.FIRING]
    first = (firing or alarms)[0]
    state = str(first.severity) if firing else "over"
    more = f" and {len(alarms) - 1} more" if len(alarms) > 1 else ""
    return _line(f"[kvedge {site}] {state}: {first.rule}: {first.target}{more}")[:_LONGEST_SUBJECT]


def _mail_lines(alarms: Sequence[Alarm], site: str) -> Iterable[str]:
    for title, state in (("Raised", State.FIRING), ("Over", State.RESOLVED)):
        found = [each for each in alarms if each.state == state]
        if not found:
            continue
        yield f"{title} on {site}:"
        for alarm in found:
            yield f"- {alarm.since}  {alarm.severity}  {alarm.rule}  {alarm.target}"
            yield f"  {_line(alarm.message)}"
            if state == State.FIRING:
                yield f"  {RULES[alarm.rule].remedy} (kvedge alarms show {alarm.rule})"
        yield ""


def _alert(alarm: Alarm, site: str) -> JsonObject:
    rule = RULES[alarm.rule]
    labels = {"alertname": alarm.rule, "severity": str(alarm.severity), "box": site, "kind": alarm.kind}
    labels |= {key: value for key, value in (("namespace", alarm.namespace), ("part", alarm.part)) if value}
    labels |= {"name": alarm.name}
    annotations = {"summary": rule.summary, "description": alarm.message, "remedy": rule.remedy}
    return {
        "status": str(alarm.state),
        "labels": labels,
        "annotations": annotations | {"runbook": f"kvedge alarms show {alarm.rule}"},
        "startsAt": alarm.raised or alarm.since,
        "endsAt": alarm.since if alarm.state == State.RESOLVED else _NO_END,
        "generatorURL": "",
        "fingerprint": hashlib.sha256(repr((site, alarm.key)).encode()).hexdigest()[:16],
    }


def _common(found: Sequence[JsonObject]) -> JsonObject:
    first, *others = found
    return {key: value for key, value in first.items() if all(each.get(key) == value for each in others)}


def _line(text: str) -> str:
    """Words of others in one line, without what would steer a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
