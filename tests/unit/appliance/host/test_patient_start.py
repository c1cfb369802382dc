"""A role that finds its cluster half made: tried anew, and only when that can help."""

from __future__ import annotations

import pytest

from kvedge.appliance.host.patient_start import PatientStart
from kvedge.kube.errors import Forbidden, Invalid, KubeError
from kvedge.runtime.services import NotYetError, ServiceError


class Role:
    """A role with an error for its start, or none."""

    name = "api"

    def __init__(self, cause: Exception | None, life: list[str]) -> None:
        self._cause = cause
        self._life = life

    def start(self) -> None:
        if self._cause is not None:
            raise ServiceError(self.name, "says why") from self._cause
        self._life.append("started")

    def stop(self) -> None:
        self._life.append("stopped")

    def failure(self) -> str | None:
        return "broken"


def test_each_try_has_a_role_of_its_own_and_the_last_one_stays() -> None:
    life: list[str] = []
    causes: list[Exception | None] = [Forbidden(403, "Forbidden", "no rights"), None]
    patient = PatientStart("api", lambda: Role(causes.pop(0), life), (KubeError,))
    with pytest.raises(NotYetError, match="says why"):
        patient.start()
    assert (life, patient.failure()) == (["stopped"], None)
    patient.start()
    assert (life, patient.failure()) == (["stopped", "started"], "broken")
    patient.stop()
    assert life[2:] == ["stopped"]


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(OSError("port in use"), id="of this host"),
        pytest.param(Invalid(422, "Invalid", "a loopback address"), id="of the settings"),
    ],
)
def test_what_no_cluster_can_mend_ends_the_start(cause: Exception) -> None:
    life: list[str] = []
    patient = PatientStart("api", lambda: Role(cause, life), (KubeError,))
    with pytest.raises(ServiceError) as caught:
        patient.start()
    assert not isinstance(caught.value, NotYetError)
    patient.stop()
    assert life == ["stopped"]
