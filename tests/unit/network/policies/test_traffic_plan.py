"""Clauses of policies put together: each port once, with everybody who may be there."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.network.policies.policy_rules import Passage, Traffic
from kvedge.network.policies.traffic_plan import Clause, WorkError, merge_clauses

CLAUSES = st.lists(
    st.builds(
        lambda protocol, first, more, at: Clause(protocol, first, first + more, ((at, at + 1),)),
        st.sampled_from([6, 17]),
        st.integers(0, 6),
        st.integers(0, 3),
        st.integers(0, 4),
    ),
    max_size=6,
)


def allowed(clauses: list[Clause] | Traffic, protocol: int, port: int, address: int) -> bool:
    return any(
        each.protocol == protocol
        and each.first <= port <= each.last
        and any(first <= address <= last for first, last in each.peers)
        for each in clauses
    )


@given(CLAUSES)
def test_what_is_put_together_lets_the_same_pass(clauses: list[Clause]) -> None:
    found, _ = merge_clauses(clauses, 1000)
    for protocol in (6, 17):
        for port in range(11):
            for address in range(7):
                assert allowed(found, protocol, port, address) == allowed(clauses, protocol, port, address)
    # And no port is in two of them.
    assert all(one.protocol < other.protocol or one.last < other.first for one, other in itertools.pairwise(found))


def test_neighbouring_ports_with_the_same_peers_are_one_passage() -> None:
    everybody = ((0, 9),)
    clauses = [Clause(6, 80, 80, everybody), Clause(6, 81, 90, everybody), Clause(6, 85, 99, everybody)]
    assert merge_clauses(clauses, 100)[0] == (Passage(6, 80, 99, everybody),)


def test_no_more_is_done_than_may_be() -> None:
    many = [Clause(6, port, 60_000 + port, ((port * 2, port * 2),)) for port in range(2000)]
    with pytest.raises(WorkError):
        merge_clauses(many, 10_000)
    assert merge_clauses(many[:10], 10_000)[1] > 0
