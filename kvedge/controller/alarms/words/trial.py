"""Tells one receiver something that is no alarm, so that an operator sees whether words reach it.

Called by `kvedge alarms test`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.controller.alarms.words.alarm_words import mail_message, webhook_document
from kvedge.controller.alarms.words.deadline_stream import WordsFailed
from kvedge.controller.alarms.words.mail_client import send_mail
from kvedge.controller.alarms.words.receiver_settings import Mail, Webhook
from kvedge.controller.alarms.words.webhook_client import post
from kvedge.resources.alarms.alarm_state import Alarm, State
from kvedge.runtime.clock import rfc3339

# A rule of no consequence; the message says what it is.
_RULE = "ClockUnsynchronized"
_MESSAGE = "this is a trial: kvedge alarms test was called, and nothing is wrong"


def try_receiver(receiver: Webhook | Mail, site: str) -> str:
    """Why it was not told; empty when it was."""
    now = datetime.now(UTC)
    stamp = rfc3339(now)
    alarm = Alarm(_RULE, "v1", "Node", "", site, "", State.RESOLVED, stamp, _MESSAGE, reason="Trial", raised=stamp)
    try:
        if isinstance(receiver, Webhook):
            post(receiver, webhook_document([alarm], receiver.name, site))
        else:
            send_mail(receiver, mail_message([alarm], receiver.from_, receiver.to, site, now))
    except WordsFailed as error:
        return str(error)
    return ""
