"""Whole lists from the kernel: a list that changes while it is read may lack entries that never went away."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final

from pyroute2.netlink import NLM_F_DUMP_INTR

from kvedge.network.errors import NetworkError

# A host that starts many VMs at once changes its links all the time; a list takes about a millisecond.
MOST_TRIES: Final = 50


def whole_dump(read: Callable[[], list[Any]]) -> list[Any]:
    """What `read` returns, as soon as nothing changed in between. Raises NetworkError after many tries."""
    for _ in range(MOST_TRIES):
        messages = read()
        if not any(message["header"]["flags"] & NLM_F_DUMP_INTR for message in messages):
            return messages
    raise NetworkError("cannot list what changes all the time", errno=errno.EAGAIN)
