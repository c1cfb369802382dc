"""Links, sessions and tickets, by a clock of the test's."""

from __future__ import annotations

import pytest

from kvedge.web.sign_in import LINK_SECONDS, TICKET_SECONDS, SignInDesk, SignInRefused, StreamTarget, TicketDesk


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


_TARGET = StreamTarget("shop", "web", "uid-1", "console")


def test_a_link_signs_in_once() -> None:
    desk: SignInDesk[str] = SignInDesk(_Clock())
    secret = desk.make_link_secret("ann")
    session = desk.find(desk.sign_in(secret))
    assert session is not None
    assert session.user == "ann"
    with pytest.raises(SignInRefused, match="used already"):
        desk.sign_in(secret)


def test_a_link_ends_after_five_minutes() -> None:
    clock = _Clock()
    desk: SignInDesk[str] = SignInDesk(clock)
    early, late = desk.make_link_secret("ann"), desk.make_link_secret("ann")
    clock.now += LINK_SECONDS - 1
    assert desk.sign_in(early)
    clock.now += 1
    with pytest.raises(SignInRefused, match="older than 5 minutes"):
        desk.sign_in(late)


def test_wrong_links_are_answered_ten_times_a_minute() -> None:
    clock = _Clock()
    desk: SignInDesk[str] = SignInDesk(clock)
    secret = desk.make_link_secret("ann")
    for _ in range(10):
        with pytest.raises(SignInRefused, match="run `kvedge web` again"):
            desk.sign_in("guess-ü\udcff")
    with pytest.raises(SignInRefused, match="wait a minute"):
        desk.sign_in(secret)
    clock.now += 60
    assert desk.sign_in(secret)


@pytest.mark.parametrize(("step", "steps"), [(15 * 60, 1), (10 * 60, 48)], ids=["idle", "in all"])
def test_a_session_ends(step: float, steps: int) -> None:
    clock = _Clock()
    desk: SignInDesk[str] = SignInDesk(clock)
    cookie = desk.sign_in(desk.make_link_secret("ann"))
    session = desk.find(cookie)
    assert session is not None
    for _ in range(steps):
        assert desk.find(cookie) is session
        clock.now += step
    assert desk.find(cookie) is None
    assert desk.is_over(session)


def test_signing_out_ends_one_session() -> None:
    desk: SignInDesk[str] = SignInDesk(_Clock())
    cookies = [desk.sign_in(desk.make_link_secret("ann")) for _ in range(2)]
    session = desk.find(cookies[0])
    assert session is not None
    desk.sign_out(session)
    assert desk.is_over(session)
    assert desk.find(cookies[0]) is None
    assert desk.find(cookies[1]) is not None


def test_eight_sessions_are_the_most() -> None:
    desk: SignInDesk[str] = SignInDesk(_Clock())
    cookies = [desk.sign_in(desk.make_link_secret("ann")) for _ in range(8)]
    ninth = desk.make_link_secret("ann")
    with pytest.raises(SignInRefused, match="8 sessions"):
        desk.sign_in(ninth)
    first = desk.find(cookies[0])
    assert first is not None
    desk.sign_out(first)
    # The link was not used up.
    assert desk.sign_in(ninth)


def test_a_ticket_opens_one_stream_of_its_session() -> None:
    clock = _Clock()
    desk: SignInDesk[str] = SignInDesk(clock)
    ann, bob = (desk.find(desk.sign_in(desk.make_link_secret(user))) for user in ("ann", "bob"))
    assert ann is not None
    assert bob is not None
    tickets: TicketDesk[str] = TicketDesk(clock)
    good = tickets.issue(ann, _TARGET)
    assert tickets.redeem(ann, good) == _TARGET
    others, late = tickets.issue(ann, _TARGET), tickets.issue(ann, _TARGET)
    for session, ticket in ((ann, good), (bob, others), (ann, others), (ann, "")):
        with pytest.raises(SignInRefused):
            tickets.redeem(session, ticket)
    clock.now += TICKET_SECONDS
    with pytest.raises(SignInRefused):
        tickets.redeem(ann, late)


def test_tickets_that_nobody_uses_have_an_end() -> None:
    clock = _Clock()
    desk: SignInDesk[str] = SignInDesk(clock)
    session = desk.find(desk.sign_in(desk.make_link_secret("ann")))
    assert session is not None
    others = [desk.find(desk.begin("bob", f"bob-{number}")) for number in range(4)]
    tickets: TicketDesk[str] = TicketDesk(clock)
    for each in (session, *others[:3]):
        assert each is not None
        for _ in range(16):
            tickets.issue(each, _TARGET)
        # One user's share is used up.
        with pytest.raises(SignInRefused, match="wait"):
            tickets.issue(each, _TARGET)
    last = others[3]
    assert last is not None
    with pytest.raises(SignInRefused, match="wait"):
        tickets.issue(last, _TARGET)
    clock.now += TICKET_SECONDS
    assert tickets.issue(session, _TARGET)
