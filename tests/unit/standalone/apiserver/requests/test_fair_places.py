"""Places that one user cannot take from all others."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kvedge.standalone.apiserver.requests.fair_places import FairPlaces
from kvedge.standalone.apiserver.wire.api_errors import TooManyRequests


def test_one_user_has_so_many_and_another_one_still_gets_one() -> None:
    places = FairPlaces("too many")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(places.take("a", most=3, of_one=2))
        with pytest.raises(TooManyRequests, match="too many, please try again later"):
            stack.enter_context(places.take("a", most=3, of_one=2))
        stack.enter_context(places.take("b", most=3, of_one=2))
        # All are taken: who has none gets one all the same.
        with pytest.raises(TooManyRequests):
            stack.enter_context(places.take("b", most=3, of_one=2))
        stack.enter_context(places.take("c", most=3, of_one=2))
    with places.take("a", most=3, of_one=2), places.take("a", most=3, of_one=2):
        pass


def test_accounts_of_one_namespace_count_together() -> None:
    places = FairPlaces("too many")
    with places.take("system:serviceaccount:n:one", most=9, of_one=1), pytest.raises(TooManyRequests):
        places.take("system:serviceaccount:n:other", most=9, of_one=1).__enter__()
