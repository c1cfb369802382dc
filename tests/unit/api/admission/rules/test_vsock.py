# Tests: kvedge/api/admission/rules/device_rules.py
"""Admission of guests with a vsock, in KubeVirt's words."""

from __future__ import annotations

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import small_vmi
from tests.support.reviews import request

ON = Configuration(gates=FeatureGates(enabled=frozenset({"VSOCK"})))
AT = "spec.domain.devices.autoattachVSOCK"
OFF = [(AT, "VSOCK feature gate is not enabled in kubevirt-config")]


@pytest.mark.parametrize(
    ("wanted", "configuration", "causes"),
    [(True, ON, []), (True, DEFAULTS, OFF), (False, DEFAULTS, []), (None, DEFAULTS, [])],
    ids=["switched on", "switched off", "not wanted", "not said"],
)
def test_a_vsock_needs_its_gate(
    wanted: bool | None, configuration: Configuration, causes: list[tuple[str, str]]
) -> None:
    vmi = small_vmi(domain__devices__autoattachVSOCK=wanted)
    verdict = plan_verdict(request(vmi), Cluster("amd64", configuration))
    assert [(str(cause.field), cause.message) for cause in verdict.causes] == causes
