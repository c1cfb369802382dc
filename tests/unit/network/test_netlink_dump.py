"""Lists that the kernel says were interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.network.errors import NetworkError
from kvedge.network.netlink_dump import MOST_TRIES, whole_dump

WHOLE = {"header": {"flags": 2}}
INTERRUPTED = {"header": {"flags": 2 | 0x10}}


def test_an_interrupted_list_is_read_again() -> None:
    lists = iter([[WHOLE, INTERRUPTED], [INTERRUPTED], [WHOLE, WHOLE]])
    assert whole_dump(lambda: next(lists)) == [WHOLE, WHOLE]


def test_an_empty_list_is_whole() -> None:
    assert whole_dump(list) == []


def test_a_list_that_never_comes_whole_is_an_error() -> None:
    tries: list[Any] = []

    def read() -> list[Any]:
        tries.append(1)
        return [INTERRUPTED]

    with pytest.raises(NetworkError, match="EAGAIN"):
        whole_dump(read)
    assert len(tries) == MOST_TRIES
