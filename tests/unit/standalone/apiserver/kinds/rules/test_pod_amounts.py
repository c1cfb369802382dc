"""What a Pod asks for as a whole."""

from __future__ import annotations

import pytest

from kvedge.standalone.apiserver.kinds.rules.pod_amounts import qos_class

_FULL = {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        ({}, "BestEffort"),
        ({"requests": _FULL, "limits": _FULL}, "Guaranteed"),
        ({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"requests": _FULL, "limits": {"cpu": "3", "memory": "1Gi"}}, "Burstable"),
        ({"limits": _FULL}, "Burstable"),
        ({"requests": {"cpu": "much", "memory": "1Gi"}, "limits": _FULL}, "Burstable"),
    ],
)
def test_the_class_goes_by_amounts_however_they_are_written(resources: dict[str, object], found: str) -> None:
    assert qos_class({"spec": {"containers": [{"name": "c", "resources": resources}]}}) == found
