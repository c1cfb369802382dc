"""`--since` of a verb: how far back it looks."""

from __future__ import annotations

import pytest

from kvedge.cli.exits import Refused
from kvedge.cli.since_option import read_since


def test_a_duration_is_seconds_and_none_is_no_limit() -> None:
    assert (read_since(None), read_since("1h30m"), read_since("10m")) == (None, 5400.0, 600.0)


def test_what_is_no_duration_is_refused_with_what_would_be_one() -> None:
    with pytest.raises(Refused, match=r"--since: .*; such as 10m or 1h30m"):
        read_since("yesterday")
