"""What a box's Node says of its host."""

from __future__ import annotations

from pathlib import Path

from kvedge.resources.names import GUESTFS_LABEL
from kvedge.standalone.agent.node.node_manifest import has_guestfs, node_labels, read_host_facts


def test_a_host_has_guestfs_with_its_program_and_an_appliance(tmp_path: Path) -> None:
    assert not has_guestfs(str(tmp_path))
    for name in ("usr/bin/guestfish", *(f"usr/local/lib/guestfs/appliance/{part}" for part in ("kernel", "initrd"))):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert not has_guestfs(str(tmp_path)), "the appliance is not whole"
    (tmp_path / "usr/local/lib/guestfs/appliance/root").touch()
    assert has_guestfs(str(tmp_path))


def test_a_node_says_whether_it_has_guestfs(tmp_path: Path) -> None:
    facts = read_host_facts("box", tmp_path)
    assert node_labels(facts)[GUESTFS_LABEL] == "false"
    assert node_labels(facts, guestfs=True)[GUESTFS_LABEL] == "true"
