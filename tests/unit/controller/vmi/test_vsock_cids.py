"""The numbers by which guests are reached over vsock."""

from __future__ import annotations

import pytest

from kvedge.controller.vmi.vsock_cids import FIRST, LAST, VsockCids


def test_a_vmi_keeps_its_number() -> None:
    cids = VsockCids(lambda cid: False)
    assert cids.give("a") == cids.give("a")
    assert FIRST <= cids.give("a") <= LAST


def test_no_two_have_the_same() -> None:
    cids = VsockCids(lambda cid: cid == FIRST, lambda below: 0)
    assert [cids.give(uid) for uid in "abc"] == [FIRST + 1, FIRST + 2, FIRST + 3]


@pytest.mark.parametrize("used", [LAST], ids=["the last one"])
def test_after_the_last_comes_the_first(used: int) -> None:
    assert VsockCids(lambda cid: cid == used, lambda below: below - 1).give("a") == FIRST


def test_the_number_of_a_vmi_that_is_gone_is_free() -> None:
    cids = VsockCids(lambda cid: False, lambda below: 0)
    cids.give("a")
    cids.forget("a")
    cids.forget("never")
    assert cids.give("b") == FIRST
