"""Places for what takes long, such as commands in containers: so many in all, and so many of one user.

Kept by routes, in the event loop. A namespace's service accounts count together.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from kvedge.standalone.apiserver.requests.bytes_in_flight import payer
from kvedge.standalone.apiserver.wire.api_errors import TooManyRequests


class FairPlaces:
    """Counts who has how many."""

    def __init__(self, refusal: str) -> None:
        """`refusal` says of what there is too much."""
        self._refusal = refusal
        self._taken: Counter[str] = Counter()

    @contextlib.contextmanager
    def take(self, user: str, *, most: int, of_one: int) -> Iterator[None]:
        """Have a place meanwhile, of `most` in all and `of_one` of one user.

        Raises:
            TooManyRequests: there is none for this user.
        """
        owner = payer(user)
        taken = self._taken[owner]
        # A user without a place may always have one, so that others cannot keep anybody away.
        if taken >= of_one or (taken and self._taken.total() >= most):
            raise TooManyRequests(f"{self._refusal}, please try again later", 1)
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]
