"""Errors of rtnetlink, as callers of kvedge's network see them."""

from __future__ import annotations

import errno

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from kvedge.network.errors import NetworkError, NotSupportedError
from kvedge.network.netlink_errors import pass_over, translate_errors


@pytest.mark.parametrize("error", [NetlinkError(errno.EBUSY), OSError(errno.EBUSY, "busy")])
def test_an_error_says_what_was_being_done_to_what(error: Exception) -> None:
    with pytest.raises(NetworkError, match="cannot delete x0") as raised, translate_errors("cannot delete", "x0"):
        raise error
    assert raised.value.errno == errno.EBUSY


def test_what_the_kernel_cannot_do_is_told_apart() -> None:
    with pytest.raises(NotSupportedError), translate_errors("cannot delete", "x0"):
        raise NetlinkError(errno.EOPNOTSUPP)


def test_an_answer_that_is_expected_is_no_error_and_others_are() -> None:
    with pass_over(errno.ENODEV):
        raise NetlinkError(errno.ENODEV)
    with pytest.raises(NetlinkError), pass_over(errno.ENODEV):
        raise NetlinkError(errno.EBUSY)
