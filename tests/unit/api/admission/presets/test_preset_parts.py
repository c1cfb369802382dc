"""A preset's parts, as they are compared."""

from __future__ import annotations

import pytest

from kvedge.api.admission.presets.preset_parts import make_preset, part_of
from kvedge.resources.codec import JsonObject
from kvedge.resources.label_selectors import LabelSelector


def test_a_preset_has_its_parts_by_their_place() -> None:
    domain: JsonObject = {
        "cpu": {"cores": 7},
        "memory": {"guest": "1Gi"},
        "resources": {"requests": {"memory": "1Gi", "cpu": "1"}},
        "clock": {"utc": {}, "timer": {"hpet": {"present": False}}},
        "devices": {"watchdog": {"name": "w"}, "disks": []},
    }
    assert sorted(make_preset("p", LabelSelector(), domain).parts) == [
        "clock.clockoffset",
        "clock.timer",
        "cpu",
        "devices.watchdog",
        "resources.requests[cpu]",
        "resources.requests[memory]",
    ]


@pytest.mark.parametrize("domain", [{"clock": "utc", "devices": [], "resources": 1}, {"cpu": None, "clock": None}])
def test_what_fits_no_schema_is_passed_over_or_compared_as_it_stands(domain: JsonObject) -> None:
    assert set(make_preset("p", LabelSelector(), domain).parts) <= {"clock.clockoffset"}


def test_parts_are_the_same_when_one_writes_defaults_out() -> None:
    short, long = part_of("cpu", {"cores": 7}), part_of("cpu", {"cores": 7, "sockets": 0})
    assert short.is_same(long)
    assert not short.is_same(part_of("cpu", {"cores": 8}))
    # An amount is compared as it stands.
    assert not part_of("resources.requests[cpu]", "1").is_same(part_of("resources.requests[cpu]", "1000m"))
    assert part_of("cpu", {"cores": "x"}).is_same(part_of("cpu", {"cores": "x"}))
