"""Errors of rtnetlink as kvedge's own; used by all that open a socket of it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from pyroute2.netlink.exceptions import NetlinkError

from kvedge.network.errors import NetworkError, NotSupportedError


@contextmanager
def translate_errors(doing: str, subject: str = "") -> Iterator[None]:
    """An error inside leaves as a NetworkError, which says what was being done to what."""
    try:
        yield
    except NetlinkError as error:
        kind = NotSupportedError if error.code == errno.EOPNOTSUPP else NetworkError
        raise kind(doing, subject=subject, errno=error.code) from error
    except OSError as error:
        raise NetworkError(doing, subject=subject, errno=error.errno or 0) from error


@contextmanager
def pass_over(code: int) -> Iterator[None]:
    """The kernel's answer with this number is none of the caller's errors."""
    try:
        yield
    except NetlinkError as error:
        if error.code != code:
            raise
