"""What is known of the specs, and of which place."""

from __future__ import annotations

import re

from tests.conformance.known_specs import CANNOT_APPLY, NEEDS_VLANS, KnownSpecs, Place, patterns, waits_for


def test_a_list_is_that_of_the_place() -> None:
    assert waits_for("[test_id:1653]with set grace period seconds", Place.BOX)
    assert not waits_for("[test_id:1653]with set grace period seconds", Place.CLUSTER)
    assert not waits_for("Port-forward VMI", Place.CLUSTER)
    known = [KnownSpecs("both", "no"), KnownSpecs("box", "no", frozenset({Place.BOX}))]
    assert patterns(known, Place.BOX) == ["both", "box"]
    assert patterns(known, Place.CLUSTER) == ["both"]


def test_what_cannot_apply_is_left_out_of_each_place_by_its_own_name() -> None:
    text = "Networkpolicy [test_id:1513] should succeed pinging between two VMI/s in the same namespace"
    assert not any(re.search(pattern, text) for pattern in patterns(CANNOT_APPLY, Place.BOX))
    assert any(re.search(pattern, text) for pattern in patterns(CANNOT_APPLY, Place.CLUSTER))
    assert re.search(NEEDS_VLANS.pattern, "[test_id:1757] should report guest interfaces in VMI status")
