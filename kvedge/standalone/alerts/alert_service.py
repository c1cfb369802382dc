"""Looks at what keeps VMs again and again, and has the site's program told what fails and what is well again.

Made by the services of one box. An alert that nobody took is told again with the next look. After a restart of kvedge
problems that still stand are told once more: it remembers nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.disks.protection_problems import PROBLEM_KINDS, Problem, find_problems
from kvedge.runtime.clock import Clock, SystemClock, rfc3339
from kvedge.runtime.rounds import Rounds
from kvedge.standalone.alerts.alert_hook import HookFailed, call_hook, find_hook
from kvedge.standalone.alerts.alert_plan import Alert, Subject, plan_alerts, subject_of

log = logging.getLogger(__name__)

HOOK: Final = "alert-hook"
_PERIOD: Final = 30.0
_VERSION: Final = 1
# Of the program in a row: it is the program then, which may hang each time, and no single alert.
_MOST_FAULTS: Final = 3


class AlertService:
    """One thread; without a program in its place it asks nobody anything."""

    name = "alerts"

    def __init__(self, client: KubeClient, program: Path, box: str, clock: Clock | None = None) -> None:
        self._client, self._program, self._box = client, program, box
        self._clock = clock or SystemClock()
        self._told: dict[Subject, Problem] = {}
        self._refused: set[Subject] = set()
        self._fault = ""
        self.rounds = Rounds("alerts", "telling somebody of failed backups", _PERIOD, self.look)

    def start(self) -> None:
        """Begin."""
        self.rounds.start()

    def stop(self) -> None:
        """End the thread."""
        self.rounds.stop()
        self._client.close()

    def failure(self) -> str | None:
        """Why nobody is told any more."""
        return self.rounds.failure()

    def look(self) -> None:
        """One look."""
        try:
            program = find_hook(self._program)
            if program is None:
                return
            fault = self._call(program, list(self._find_problems()))
        except HookFailed as error:
            self._tell_fault(str(error))
        except (KubeError, OSError) as error:
            # The API of this very box: its own service tells when it fails.
            log.debug("no look at what keeps VMs: %s", error)
        else:
            if fault:
                self._tell_fault(fault)
            else:
                self._fault = ""

    def _call(self, program: Path, found: list[Problem]) -> str:
        """Tell each alert; the first fault of the program, which keeps no other alert from being told."""
        first, faults = "", 0
        refused, self._refused = self._refused, set()
        # Those that the program has failed on come last, so that a few of them are not all that is ever tried.
        for alert in sorted(plan_alerts(self._told, found), key=lambda each: subject_of(each.problem) in refused):
            self.rounds.beat()
            try:
                call_hook(program, self._document(alert))
            except HookFailed as error:
                first = first or str(error)
                self._refused.add(subject_of(alert.problem))
                faults += 1
                if faults >= _MOST_FAULTS:
                    break
            else:
                self._remember(alert)
                faults = 0
        return first

    def _find_problems(self) -> Iterator[Problem]:
        for kind in PROBLEM_KINDS:
            try:
                items: list[Any] = self._client.list(kind)
            except NotFound:
                continue
            yield from find_problems(items)

    def _remember(self, alert: Alert) -> None:
        subject = subject_of(alert.problem)
        if alert.state == "firing":
            self._told[subject] = alert.problem
        else:
            self._told.pop(subject, None)

    def _document(self, alert: Alert) -> dict[str, object]:
        problem = alert.problem
        return {
            "version": _VERSION,
            "state": alert.state,
            "box": self._box,
            "time": rfc3339(self._clock.now()),
            "kind": problem.kind,
            "namespace": problem.namespace,
            "name": problem.name,
            "reason": problem.reason,
            "message": problem.message,
        }

    def _tell_fault(self, text: str) -> None:
        if text != self._fault:
            log.error("an alert reached nobody: %s", text)
        self._fault = text
