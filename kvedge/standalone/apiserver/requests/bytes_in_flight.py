"""How many bytes of requests and answers the server holds for clients that are slow to send or to take them.

`connection_gate` keeps one account for the server and gives each request a part of it; `request_body`, the gate and
`watch_stream` charge what they hold. Lives in the API server's event loop. No I/O.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from kvedge.resources.role_users import ACCOUNT_PREFIX
from kvedge.standalone.apiserver.store.stored import LARGEST_OBJECT
from kvedge.standalone.apiserver.wire.api_errors import TooManyRequests

# So much is held for one user at once, and for all of them. A user for whom nothing is held is always served: nobody
# is kept away by others.
USER_BYTES: Final = 48 << 20
ALL_BYTES: Final = 128 << 20
# A smaller body costs no more than its connection does.
FREE_BYTES: Final = 64 << 10
_RETRY_SECONDS: Final = 1


class BytesInFlight:
    """The account of one server."""

    def __init__(self) -> None:
        self._total = 0
        self._of_user: dict[str, int] = {}

    def fits(self, user: str, size: int) -> bool:
        """Whether so much more may be held for this user."""
        held = self._of_user.get(user, 0)
        return not held or (held + size <= USER_BYTES and self._total + size <= ALL_BYTES)

    def add(self, user: str, size: int) -> None:
        """Hold so much more; a negative size gives it back."""
        self._total += size
        held = self._of_user.get(user, 0) + size
        if held:
            self._of_user[user] = held
        else:
            self._of_user.pop(user, None)


class Flight:
    """What one request holds. The dispatcher says whose it is, once that is known."""

    def __init__(self, account: BytesInFlight) -> None:
        self._account = account
        self._held = 0
        self.user = ""

    def check_room(self) -> None:
        """For a write: what it will be answered must fit, as it cannot be undone when that does not.

        Raises:
            TooManyRequests: it would not.
        """
        if not self._account.fits(self.user, LARGEST_OBJECT):
            raise too_much_in_flight()

    def take(self, size: int) -> bool:
        """Hold so much more for the request's user; false when that is too much for now."""
        if size <= FREE_BYTES:
            return True
        if not self._account.fits(self.user, size):
            return False
        self._account.add(self.user, size)
        self._held += size
        return True

    def give_back(self, size: int) -> None:
        """Hold so much less, of what :meth:`take` has taken."""
        if size > FREE_BYTES:
            self._account.add(self.user, -size)
            self._held -= size

    def end(self) -> None:
        """Hold nothing more."""
        self._account.add(self.user, -self._held)
        self._held = 0


FLIGHT: Final = web.RequestKey("flight", Flight)


def too_much_in_flight() -> TooManyRequests:
    """What a client is told for whom the server holds too much."""
    return TooManyRequests(
        "too many large requests and answers of yours are on their way, please take them and try again later",
        _RETRY_SECONDS,
    )


def payer(user: str) -> str:
    """The account for a user's bytes: the service accounts of a namespace, which its users can make, share one."""
    if user.startswith(ACCOUNT_PREFIX):
        return user.rpartition(":")[0]
    return user
