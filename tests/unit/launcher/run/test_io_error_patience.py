"""When a guest that an I/O error has paused goes on by itself."""

from __future__ import annotations

from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.run.io_error_patience import LONGEST_SECONDS, RECOVERED_SECONDS, IoErrorPatience

STOPPED = DomainFacts(uuid="u", life=Life.PAUSED, why=Why.IO_ERROR)
RUNNING = DomainFacts(uuid="u", life=Life.RUNNING, why=Why.UNPAUSED)
PAUSED = DomainFacts(uuid="u", life=Life.PAUSED, why=Why.USER)


def tries(patience: IoErrorPatience, begin: int, seconds: int) -> list[int]:
    """When it was let go on, of a guest that fails at once each time."""
    return [now for now in range(begin, begin + seconds) if patience.goes_on(STOPPED, float(now))]


def test_the_pauses_between_tries_double_up_to_three_minutes() -> None:
    found = tries(IoErrorPatience(), 0, 1200)
    # A look after each try sees the guest paused again.
    gaps = [after - before for before, after in zip([0, *found], found, strict=False)]
    assert gaps[:5] == [10, 21, 41, 81, 161]
    assert max(gaps) <= LONGEST_SECONDS + 1


def test_a_guest_that_a_user_paused_is_left_alone() -> None:
    patience = IoErrorPatience()
    assert not any(patience.goes_on(PAUSED, float(now)) for now in range(1000))


def test_a_guest_that_ran_for_a_while_has_its_first_pause_again() -> None:
    patience = IoErrorPatience()
    tries(patience, 0, 100)
    patience.goes_on(RUNNING, 100.0)
    patience.goes_on(RUNNING, 100.0 + RECOVERED_SECONDS)
    assert tries(patience, 200, 60)[0] == 210


def test_a_guest_that_fails_again_soon_waits_longer() -> None:
    patience = IoErrorPatience()
    assert tries(patience, 0, 11) == [10]
    patience.goes_on(RUNNING, 12.0)
    assert tries(patience, 20, 60) == [40]
