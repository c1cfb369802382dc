"""A token that ends, exchanged for a new one in time.

Used by `exec_credentials` and `oidc_token`, which know where tokens come from; certificates of programs are exchanged
by the same rule, in `live_connection`. Requests of any thread ask for it; the
token before stays in use while there is no new one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault

log = logging.getLogger(__name__)

# How long before its end a token is exchanged; less for one that lives shortly.
_BEFORE_END: Final = timedelta(minutes=1)
_SHARE_OF_LIFE: Final = 10
# When a try has failed, the next one comes after this time.
_AGAIN: Final = timedelta(seconds=10)


class Token(NamedTuple):
    """A token and when it ends; None for never, as far as anybody has said."""

    text: str
    ends: datetime | None = None


def utc_now() -> datetime:
    """The present time."""
    return datetime.now(UTC)


class RenewedToken:
    """One user's token; may be asked by any thread."""

    def __init__(self, first: Token, renew: Callable[[], Token], now: Callable[[], datetime] = utc_now) -> None:
        """`renew()` gives the next token, or raises KubeconfigFault."""
        self._renew = renew
        self._now = now
        self._renewing = threading.Lock()
        self._token = first
        self._due = due_of(first.ends, now())
        # What the last try failed with, so that it is logged once and not every ten seconds.
        self._complaint = ""

    def header(self) -> str:
        """What to send as Authorization."""
        if self._is_due():
            with self._renewing:
                if self._is_due():
                    self._exchange()
        return f"Bearer {self._token.text}"

    def _is_due(self) -> bool:
        return self._due is not None and self._now() >= self._due

    def _exchange(self) -> None:
        try:
            self._token = self._renew()
        except KubeconfigFault as error:
            self._due = self._now() + _AGAIN
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("there is no new token, the one before stays", extra={"facts": {"reason": str(error)}})
            return
        if self._complaint:
            self._complaint = ""
            log.info("there is a new token again")
        self._due = due_of(self._token.ends, self._now())


def due_of(ends: datetime | None, now: datetime) -> datetime | None:
    """When to exchange what was given now; None for what never ends."""
    if ends is None:
        return None
    return ends - min(_BEFORE_END, max(timedelta(0), ends - now) / _SHARE_OF_LIFE)
