"""Follows who is to be told of alarms, and has a teller for each.

Run by the controller role, while it leads. Reads a file and a program's place of this host, and a Secret; both may
change while it runs.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import os
import stat
import threading
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.controller.alarms.words.deadline_stream import WordsFailed
from kvedge.controller.alarms.words.hook_program import find_hook
from kvedge.controller.alarms.words.receiver_settings import (
    HOOK,
    LONGEST_DOCUMENT,
    ReceiverError,
    Receivers,
    Webhook,
    read_receivers,
)
from kvedge.controller.alarms.words.tellers import Channel, Teller, hook_channel, mail_channel, webhook_channel
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.alarms.alarm_names import ALERT_HOOK, RECEIVERS_FILE, RECEIVERS_SECRET
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import Secret
from kvedge.runtime.clock import Clock
from kvedge.runtime.rounds import Rounds

log = logging.getLogger(__name__)

_PERIOD: Final = 30.0


class WordPlaces(Struct, frozen=True):
    """Where this host says who is told, and what it is called; a controller in a Pod has no directory."""

    directory: Path | None = None
    site: str = "kvedge"


class TellerDesk:
    """One thread looks who is to be told; each receiver has its own."""

    def __init__(self, client: KubeClient, board: AlarmBoard, places: WordPlaces, clock: Clock) -> None:
        self._client = client
        self._board = board
        self._places = places
        self._clock = clock
        self._lock = threading.Lock()
        self._tellers: dict[str, Teller] = {}
        self._faults: dict[str, str] = {}
        self._is_stopped = False
        self.rounds = Rounds("alarm-receivers", "looks who is told of alarms", _PERIOD, self.look, at_once=True)

    def start(self) -> None:
        """Begin."""
        self.rounds.start()

    def stop(self) -> None:
        """End all threads."""
        self.rounds.stop()
        with self._lock:
            self._is_stopped = True
            tellers, self._tellers = list(self._tellers.values()), {}
        for each in tellers:
            each.stop()

    def failure(self) -> str | None:
        """Why somebody is no longer told."""
        with self._lock:
            tellers = list(self._tellers.values())
        asked = (self.rounds.failure, *(each.failure for each in tellers))
        return next((why for ask in asked if (why := ask()) is not None), None)

    def names(self) -> list[str]:
        """Those who are told."""
        with self._lock:
            return list(self._tellers)

    def look(self) -> None:
        """Have a teller for each receiver that there is now. What cannot be read now stays as it was."""
        wanted: dict[str, tuple[Any, Channel]] = {}
        for origin, read in (("file", self._read_file), ("Secret", self._read_secret)):
            try:
                found = read()
            except (ReceiverError, KubeError, OSError) as error:
                self._note_fault(origin, str(error))
                wanted |= {name: each for name, each in self._present(origin).items() if name not in wanted}
                continue
            self._note_fault(origin, "")
            for each in found.all:
                # The host's own word counts first.
                wanted.setdefault(each.name, ((origin, each), self._channel(each)))
        if self._has_hook():
            assert self._places.directory is not None
            path = self._places.directory / ALERT_HOOK
            wanted[HOOK] = (("hook", path), hook_channel(path, self._places.site, self._clock))
        self._exchange(wanted)

    def _exchange(self, wanted: dict[str, tuple[Any, Channel]]) -> None:
        ended: list[Teller] = []
        with self._lock:
            if self._is_stopped:
                return
            for name, teller in list(self._tellers.items()):
                if name not in wanted or wanted[name][0] != teller.settings:
                    ended.append(self._tellers.pop(name))
            for name, (settings, channel) in wanted.items():
                if name not in self._tellers:
                    self._tellers[name] = Teller(self._board, channel, settings)
                    self._tellers[name].start()
        for each in ended:
            each.stop()

    def _present(self, origin: str) -> dict[str, tuple[Any, Channel]]:
        with self._lock:
            return {
                name: (teller.settings, teller.channel)
                for name, teller in self._tellers.items()
                if teller.settings[0] == origin
            }

    def _channel(self, each: Any) -> Channel:
        if isinstance(each, Webhook):
            return webhook_channel(each, self._places.site)
        return mail_channel(each, self._places.site, self._clock)

    def _has_hook(self) -> bool:
        if self._places.directory is None:
            return False
        try:
            found = find_hook(self._places.directory / ALERT_HOOK)
        except WordsFailed as error:
            self._note_fault(HOOK, str(error))
            return False
        self._note_fault(HOOK, "")
        return found is not None

    def _read_file(self) -> Receivers:
        if self._places.directory is None:
            return Receivers()
        return read_receivers_file(self._places.directory / RECEIVERS_FILE) or Receivers()

    def _read_secret(self) -> Receivers:
        try:
            secret = self._client.get(Secret, SYSTEM_NAMESPACE, RECEIVERS_SECRET)
        except NotFound:
            return Receivers()
        try:
            text = base64.b64decode(secret.data.get(RECEIVERS_FILE, ""))
        except (binascii.Error, ValueError):
            raise ReceiverError(f"{RECEIVERS_FILE} is no base64") from None
        return read_receivers(text)

    def _note_fault(self, origin: str, text: str) -> None:
        if text and text != self._faults.get(origin):
            log.error("receivers of alarms cannot be used", extra={"facts": {"from": origin, "error": text}})
        self._faults[origin] = text


def read_receivers_file(path: Path) -> Receivers | None:
    """The receivers that a host names; None where it has no such file.

    Raises:
        ReceiverError: when it cannot be used, or others than root could read or write it.
        OSError: when it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, descriptor)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ReceiverError(f"{path} is no file")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or status.st_uid not in (0, os.geteuid()):
            raise ReceiverError(f"{path} holds secrets: chown root {path}; chmod 600 {path}")
        text = os.read(descriptor, LONGEST_DOCUMENT + 1)
    try:
        return read_receivers(text)
    except ReceiverError as error:
        raise ReceiverError(f"{path}: {error}") from error
