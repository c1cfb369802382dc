"""The limit of open files: raised as far as the process may, never lowered."""

from __future__ import annotations

import resource

import pytest

from kvedge.runtime import open_files


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((1024, 524288), 65536),
        ((1024, 4096), 4096),
        ((1024, resource.RLIM_INFINITY), 65536),
        ((100_000, 524288), 100_000),
        ((65536, 65536), 65536),
    ],
    ids=["systemd's", "a low hard limit", "no hard limit", "more than is wanted", "as wanted"],
)
def test_the_limit_is_raised_and_never_lowered(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], expected: int
) -> None:
    state = list(limits)
    monkeypatch.setattr(resource, "getrlimit", lambda which: tuple(state))
    monkeypatch.setattr(resource, "setrlimit", lambda which, wanted: state.__setitem__(slice(None), wanted))
    assert open_files.raise_open_files() == expected
    assert state == [expected, limits[1]]
    assert open_files.open_files() == expected
