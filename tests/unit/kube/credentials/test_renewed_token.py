"""A token is exchanged before it ends, once for all threads, and stays while there is no other one."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from kvedge.kube.credentials.renewed_token import RenewedToken, Token
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault

START = datetime(2030, 1, 1, tzinfo=UTC)


class Issuer:
    """Gives numbered tokens, each for a time, on a clock of the test's."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.now = START
        self.given = 0
        self.fault = ""

    def give(self) -> Token:
        if self.fault:
            raise KubeconfigFault(self.fault)
        self.given += 1
        return Token(f"t{self.given}", None if self.seconds is None else self.now + timedelta(seconds=self.seconds))

    def token(self) -> RenewedToken:
        return RenewedToken(self.give(), self.give, lambda: self.now)


@pytest.mark.parametrize(("life", "renewed_after"), [(3600, 3540), (60, 54), (None, None)])
def test_it_is_exchanged_shortly_before_its_end(life: float | None, renewed_after: float | None) -> None:
    issuer = Issuer(life)
    token = issuer.token()
    issuer.now = START + timedelta(seconds=(renewed_after or 1e6) - 1)
    assert token.header() == "Bearer t1"
    issuer.now += timedelta(seconds=1)
    assert token.header() == ("Bearer t1" if renewed_after is None else "Bearer t2")


def test_the_one_before_stays_while_there_is_no_other(caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer(3600)
    token = issuer.token()
    issuer.now += timedelta(hours=1)
    issuer.fault = "the program fails"
    with caplog.at_level(logging.WARNING):
        assert [token.header(), token.header()] == ["Bearer t1", "Bearer t1"]
    assert len(caplog.records) == 1, "the next try waits"
    with caplog.at_level(logging.WARNING):
        issuer.now += timedelta(seconds=10)
        assert token.header() == "Bearer t1"
    assert len(caplog.records) == 1, "the same fault is told once"
    issuer.fault = ""
    issuer.now += timedelta(seconds=10)
    assert token.header() == "Bearer t2"


def test_a_token_that_has_ended_already_is_exchanged_at_the_next_request() -> None:
    issuer = Issuer(-5)
    token = issuer.token()
    assert token.header() == "Bearer t2"


def test_many_threads_exchange_it_once() -> None:
    issuer = Issuer(3600)
    token = issuer.token()
    issuer.now += timedelta(hours=1)
    threads = [threading.Thread(target=token.header) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert issuer.given == 2
