"""Who may have how many bytes on the way."""

from __future__ import annotations

import pytest

from kvedge.standalone.apiserver.requests import bytes_in_flight
from kvedge.standalone.apiserver.requests.bytes_in_flight import FREE_BYTES, BytesInFlight, Flight, payer
from kvedge.standalone.apiserver.store.stored import LARGEST_OBJECT
from kvedge.standalone.apiserver.wire.api_errors import TooManyRequests

LARGE = FREE_BYTES * 10


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> BytesInFlight:
    """Room for three large answers of one user, and for five in all."""
    monkeypatch.setattr(bytes_in_flight, "USER_BYTES", 3 * LARGE)
    monkeypatch.setattr(bytes_in_flight, "ALL_BYTES", 5 * LARGE)
    return BytesInFlight()


def flight(account: BytesInFlight, user: str) -> Flight:
    """A request of a user."""
    made = Flight(account)
    made.user = user
    return made


def test_a_user_has_so_much_and_no_more_until_something_ends(account: BytesInFlight) -> None:
    flights = [flight(account, "a") for _ in range(4)]
    assert [one.take(LARGE) for one in flights] == [True, True, True, False]
    flights[0].end()
    assert flights[3].take(LARGE)


def test_what_is_small_is_always_taken(account: BytesInFlight) -> None:
    full = flight(account, "a")
    assert full.take(3 * LARGE)
    assert flight(account, "a").take(FREE_BYTES)


def test_all_users_together_have_so_much_but_each_has_one(account: BytesInFlight) -> None:
    assert all(flight(account, user).take(2 * LARGE) for user in "ab")
    assert flight(account, "c").take(2 * LARGE)
    assert not flight(account, "c").take(1 * LARGE)
    assert flight(account, "d").take(9 * LARGE)


def test_a_part_can_be_given_back(account: BytesInFlight) -> None:
    one = flight(account, "a")
    assert one.take(3 * LARGE)
    one.give_back(3 * LARGE)
    assert flight(account, "a").take(LARGE)
    one.end()
    assert flight(account, "a").take(2 * LARGE)
    assert not flight(account, "a").take(LARGE)


def test_a_write_is_refused_while_its_answer_might_not_fit(account: BytesInFlight) -> None:
    flight(account, "a").check_room()
    held = flight(account, "a")
    assert held.take(3 * LARGE)
    assert 3 * LARGE + LARGEST_OBJECT > bytes_in_flight.USER_BYTES
    with pytest.raises(TooManyRequests) as refused:
        flight(account, "a").check_room()
    assert refused.value.retry_after_seconds == 1
    flight(account, "b").check_room()


def test_the_accounts_of_one_namespace_share_theirs() -> None:
    assert payer("system:serviceaccount:ns:one") == payer("system:serviceaccount:ns:two")
    assert payer("system:serviceaccount:ns:one") != payer("system:serviceaccount:other:one")
    assert payer("ann") == "ann"
