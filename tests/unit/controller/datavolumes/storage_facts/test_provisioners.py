from __future__ import annotations

from kvedge.controller.datavolumes.storage_facts.provisioners import find_property_sets


def test_one_box_and_k3s_have_profiles_without_anybody_writing_one() -> None:
    for provisioner in ("kvedge.io/box", "rancher.io/local-path"):
        best = find_property_sets(provisioner)[0]
        assert (best.access_modes, best.volume_mode) == (["ReadWriteOnce"], "Filesystem")
    assert find_property_sets("somebody.example/else") == []
