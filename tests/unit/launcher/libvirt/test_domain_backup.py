"""libvirt's backup job is over once QEMU has ended its part, whoever has called it off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvedge.launcher.launcher_errors import DomainMissing, LauncherError, Unanswered, WrongState
from tests.support.needs import NEEDS_LIBVIRT

pytestmark = NEEDS_LIBVIRT

# libvirt's VIR_DOMAIN_JOB_OPERATION_BACKUP.
BACKUP = 9


class PlayedDomain:
    """A domain whose job is seen for so many more looks once it was called off."""

    def __init__(self, looks: int, refusal: str = "") -> None:
        self.looks = looks
        self.refusal = refusal
        self.called_off = 0

    def isActive(self) -> bool:
        return True

    def jobStats(self) -> dict[str, Any]:
        if self.called_off:
            self.looks -= 1
        goes_on = self.looks >= 0
        return {"type": 2, "operation": BACKUP} if goes_on else {"type": 0}

    def abortJob(self) -> None:
        self.called_off += 1
        if self.refusal:
            raise WrongState(self.refusal)


def end(find: Callable[[], Any], **options: float) -> None:
    """End the job of the domain that `find()` is."""
    from kvedge.launcher.libvirt.domain_backup import DomainBackup

    DomainBackup(find, **options).end()


def test_a_job_is_over_only_once_qemu_has_ended_it() -> None:
    domain = PlayedDomain(looks=3)
    end(lambda: domain)
    assert (domain.called_off, domain.looks) == (1, -1)


def test_a_job_that_ended_by_itself_meanwhile_is_over() -> None:
    domain = PlayedDomain(looks=0, refusal="no job is active on the domain")
    end(lambda: domain)
    assert domain.called_off == 1


def test_without_a_job_nothing_is_called_off() -> None:
    domain = PlayedDomain(looks=-1)
    end(lambda: domain)
    assert domain.called_off == 0


@pytest.mark.parametrize(("refusal", "error"), [("", Unanswered), ("not now", WrongState)], ids=["in silence", "said"])
def test_a_job_that_does_not_end_is_told(refusal: str, error: type[LauncherError]) -> None:
    with pytest.raises(error, match=refusal or "does not end"):
        end(lambda: PlayedDomain(looks=1000, refusal=refusal), seconds=0.0)


def test_a_guest_that_is_gone_has_no_job() -> None:
    def find() -> Any:
        raise DomainMissing("there is no domain")

    end(find)
