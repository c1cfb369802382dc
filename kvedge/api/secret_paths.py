"""The secret part in the paths of webhooks that ask the API server something or write: only that server may call them.

The role's port is open to the whole cluster, and an API server shows a webhook no certificate. It does know the path,
from a webhook configuration, which users cannot read by any role of Kubernetes' own. The part is made of a key that all
api roles share. It changes hourly, as an API server that gets no answer tells a user the whole URL.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from aiohttp import web

from kvedge.runtime.clock import Clock

_PERIOD_SECONDS: Final = 3600
# 128 bits: a path is made of DNS names, so that they are written as hexadecimal digits.
_DIGITS: Final = 32
# The one before is called until a role has written the present one. Two api roles' clocks may be hours apart: each
# answers to what the other one has written.
_PERIODS: Final = tuple(sorted(range(-24, 25), key=abs))
# The clock of a host may be set right by years: what this role has written last is called until it writes anew.
_REMEMBERED: Final = 2


class SecretPaths:
    """What this role answers at; its rounds ask for the part to write, its event loop judges calls."""

    def __init__(self, keys: Callable[[], Sequence[bytes]], clock: Clock) -> None:
        """`keys` gives those that api roles may use now, the one for new parts first."""
        self._keys = keys
        self._clock = clock
        self._written: tuple[str, ...] = ()

    def part_to_write(self) -> str:
        """The part for webhook configurations; it is answered at from now on."""
        part = _part(self._keys()[0], self._period())
        if part not in self._written[:1]:
            self._written = (part, *self._written)[:_REMEMBERED]
        return part

    def route(self, path: str, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.RouteDef:
        """A webhook that is not there for a caller who does not know the part."""

        async def handle(request: web.Request) -> web.StreamResponse:
            given = request.match_info["part"].encode()
            if not any(hmac.compare_digest(given, known.encode()) for known in self._known_parts()):
                raise web.HTTPNotFound
            return await handler(request)

        return web.post(f"{path}/{{part}}", handle)

    def _known_parts(self) -> Iterator[str]:
        now = self._period()
        yield from self._written
        yield from (_part(key, now + ahead) for key in self._keys() for ahead in _PERIODS)

    def _period(self) -> int:
        return int(self._clock.now().timestamp()) // _PERIOD_SECONDS


def _part(key: bytes, period: int) -> str:
    return hmac.digest(key, str(period).encode(), hashlib.sha256).hex()[:_DIGITS]
