"""Tests' processes that tell of a test in two messages instead of six: a plugin of pytest for tests/conftest.py.

pytest-xdist sends one when a test begins, one when it ends, one for each of its three parts, and another at the very
end. With seventeen thousand tests the four around the call are 9 s of a processor. What shows the results needs none
of them, unless a part fails, is skipped, has something to show, or takes so long that it is listed.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

import pytest

from tests.support.run_costs import PROCESSOR_SECONDS

# What takes less is in no list of the slowest: pytest's `--durations-min`.
_LISTED_SECONDS: Final = 0.005
_OF_NO_INTEREST: Final = ("logstart", "logfinish")


class _Interactor(Protocol):
    """Of pytest-xdist, in a process that runs tests."""

    sendevent: Any


class QuietWorker:
    """What stands between such a process and what shows its results."""

    def __init__(self, interactor: _Interactor) -> None:
        self._send = interactor.sendevent
        # Of the reports that were kept back since the last one that was sent.
        self._spent = 0.0
        interactor.sendevent = self.send

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Have it in a process that runs tests for another one, which names each as it begins where it is verbose."""
        if hasattr(config, "workerinput") and config.get_verbosity() <= 0:
            for plugin in config.pluginmanager.get_plugins():
                if hasattr(plugin, "sendevent"):
                    cls(cast(_Interactor, plugin))

    def send(self, name: str, **kwargs: Any) -> None:
        """Called by pytest-xdist with each message."""
        if name in _OF_NO_INTEREST:
            return
        if name == "testreport":
            report = kwargs["data"]
            if _is_quiet(report):
                self._spent += _spent(report)
                return
            report["user_properties"] = [*report["user_properties"], (PROCESSOR_SECONDS, round(self._spent, 3))]
            self._spent = 0.0
        self._send(name, **kwargs)


def _is_quiet(report: dict[str, Any]) -> bool:
    """Whether a report is of a part before or after a call that went well at once and has nothing to show."""
    return bool(
        report["when"] != "call"
        and report["outcome"] == "passed"
        and report["duration"] < _LISTED_SECONDS
        and not report["sections"]
        and all(name == PROCESSOR_SECONDS for name, _ in report["user_properties"])
    )


def _spent(report: dict[str, Any]) -> float:
    return sum(float(value) for _, value in report["user_properties"])
