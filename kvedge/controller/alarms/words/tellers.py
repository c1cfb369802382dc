"""One thread for each receiver: it waits for news on the board, and tells them.

Started by the desk. A receiver that hangs or refuses holds up only its own words: what it has not taken stays on the
board, and is told together once it takes something again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.controller.alarms.words.alarm_words import hook_document, mail_message, webhook_document
from kvedge.controller.alarms.words.deadline_stream import WordsFailed
from kvedge.controller.alarms.words.hook_program import call_hook, find_hook
from kvedge.controller.alarms.words.mail_client import send_mail
from kvedge.controller.alarms.words.receiver_settings import HOOK, Mail, Webhook
from kvedge.controller.alarms.words.webhook_client import post
from kvedge.resources.alarms.alarm_rules import Severity
from kvedge.resources.alarms.alarm_state import Alarm
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 15.0
_LONGEST_PAUSE: Final = 900.0
_SEVERITIES: Final = tuple(Severity)

# Called with each part that the receiver has taken.
Taken = Callable[[Sequence[Alarm]], None]
Tell = Callable[[Sequence[Alarm], Taken], None]


class Channel:
    """How one receiver is told: at most `most` alarms at once, after `settle` seconds in which more may come."""

    def __init__(self, name: str, tell: Tell, most: int, settle: float, least: Severity = Severity.WARNING) -> None:
        """`tell` raises WordsFailed when some were not taken."""
        self.name = name
        self.tell = tell
        self.most = most
        self.settle = settle
        self._least = least

    def wants(self, alarm: Alarm) -> bool:
        """Whether the receiver hears of such alarms."""
        return _SEVERITIES.index(alarm.severity) <= _SEVERITIES.index(self._least)


def webhook_channel(webhook: Webhook, site: str) -> Channel:
    """A webhook is told of up to 64 alarms in one request."""

    def tell(alarms: Sequence[Alarm], taken: Taken) -> None:
        post(webhook, webhook_document(alarms, webhook.name, site))
        taken(alarms)

    return Channel(webhook.name, tell, 64, 1.0, webhook.severity)


def mail_channel(mail: Mail, site: str, clock: Clock) -> Channel:
    """A storm is one mail: what comes within twenty seconds comes with it."""

    def tell(alarms: Sequence[Alarm], taken: Taken) -> None:
        send_mail(mail, mail_message(alarms, mail.from_, mail.to, site, clock.now()))
        taken(alarms)

    return Channel(mail.name, tell, 200, 20.0, mail.severity)


def hook_channel(program: Path, site: str, clock: Clock) -> Channel:
    """The site's program is told of each alarm by itself, until it fails."""

    def tell(alarms: Sequence[Alarm], taken: Taken) -> None:
        fault: WordsFailed | None = None
        for alarm in alarms:
            try:
                found = find_hook(program)
                if found is None:
                    return
                call_hook(found, hook_document(alarm, site, clock.now()))
            except WordsFailed as error:
                # One that it fails on keeps no other from being told.
                fault = fault or error
            else:
                taken([alarm])
        if fault is not None:
            raise fault

    return Channel(HOOK, tell, 8, 0.0, Severity.INFO)


class Teller:
    """The thread of one receiver."""

    def __init__(self, board: AlarmBoard, channel: Channel, settings: Any) -> None:
        """`settings` are what the channel was made of: others mean another teller."""
        self.settings = settings
        self._board = board
        self.channel = channel
        self._stop = threading.Event()
        self._failures = 0
        self._fault = ""
        self._thread = BackgroundThread(f"alarms-{channel.name}", self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a call that is under way ends by its own deadline, in a daemon thread."""
        self._stop.set()
        self._board.wake()
        self._thread.join(_STOP_SECONDS)

    def failure(self) -> str | None:
        """Why nothing is told any more."""
        return self._thread.failure()

    def tell_news(self) -> float:
        """Tell what is news; how many seconds to pause then."""
        news = [each for each in self._board.news_for(self.channel.name) if self.channel.wants(each)]
        news = news[: self.channel.most]
        if not news:
            return 0.0
        try:
            self.channel.tell(news, lambda taken: self._board.mark_told(self.channel.name, taken))
        except WordsFailed as error:
            self._note_fault(str(error))
            if error.is_final:
                # The same words would be refused for ever, and what comes after them with them.
                self._board.mark_told(self.channel.name, news)
            self._failures += 1
            return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10)))
        self._failures = 0
        self._fault = ""
        return self.channel.settle

    def _run(self) -> None:
        while not self._stop.is_set():
            if not any(self.channel.wants(each) for each in self._board.news_for(self.channel.name)):
                self._board.wait(_WAIT_SECONDS)
                continue
            if self._stop.wait(self.channel.settle):
                return
            self._stop.wait(self.tell_news())

    def _note_fault(self, text: str) -> None:
        if text != self._fault:
            log.error("alarms reached nobody", extra={"facts": {"receiver": self.channel.name, "error": text}})
        self._fault = text
