"""What the console answers when something goes wrong, in its own form and with its own headers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kvedge.web import console_app
from tests.unit.web.console_pages import Pages, browse


def test_what_nobody_expected_is_logged_and_answered_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("not for the page")

    monkeypatch.setattr(console_app, "READS", {"/broken": fail})

    async def test(pages: Pages) -> None:
        status, said = await pages.get("/broken", pages.sign_in("ann"))
        assert (status, said) == (500, {"message": "the console failed at this; its log tells why"})

    with caplog.at_level(logging.ERROR):
        browse(test)
    [record] = [record for record in caplog.records if record.name == console_app.__name__]
    assert record.exc_info is not None
    assert "not for the page" in str(record.exc_info[1])
