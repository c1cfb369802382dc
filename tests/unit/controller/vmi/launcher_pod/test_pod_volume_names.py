from __future__ import annotations

from kvedge.controller.vmi.launcher_pod.pod_volume_names import free_name


def test_a_volume_keeps_its_name_unless_the_launcher_has_it_for_itself() -> None:
    taken = {"private"}
    assert free_name("data", taken) == "data"
    assert free_name("private", taken) == "private-vmi"
    assert free_name("private-vmi", taken) == "private-vmi-vmi"
    assert taken == {"private", "data", "private-vmi", "private-vmi-vmi"}


def test_a_long_name_stays_one_that_kubernetes_takes() -> None:
    name = "a" * 63
    found = free_name(name, {name})
    assert len(found) == 63
    assert found.endswith("-vmi")
