"""The state of a running VM is kept as it was when the guest stood, and goes into its volume whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.launcher.copies.state_copy import StateCopy
from kvedge.launcher.launcher_errors import WrongState
from kvedge.resources.disks.hotplug_places import hotplug_path
from kvedge.storage.state_archive import NVRAM, TPM, unpack

CLAIM = "var/run/kubevirt-private/vmi-disks/persistent-state-for-this-vm"


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    made = tmp_path / CLAIM
    for name, content in (("nvram/web_VARS.fd", b"variables"), ("swtpm/tpm2/tpm2-00.permall", b"secrets")):
        (made / name).parent.mkdir(parents=True)
        (made / name).write_bytes(content)
    (tmp_path / "run").mkdir()
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = Path(f"{tmp_path}{hotplug_path('state-copy', block=False)}")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * (5 << 20))
    return path


def state_in(archive: Path) -> dict[str, bytes]:
    targets = {name: os.memfd_create(name) for name in (NVRAM, TPM)}
    with archive.open("rb") as source:
        unpack(source.fileno(), targets)
    found = {name: os.pread(target, 100, 0) for name, target in targets.items()}
    for each in targets.values():
        os.close(each)
    return found


def test_what_the_guest_changes_later_is_not_in_it(tmp_path: Path, claim: Path, target: Path) -> None:
    copy = StateCopy(str(tmp_path / "run"), str(tmp_path))
    copy.pack()
    (claim / "nvram/web_VARS.fd").write_bytes(b"later")
    assert (tmp_path / "run/state-copy").stat().st_mode & 0o777 == 0o600
    copy.write("state-copy")
    assert state_in(target) == {NVRAM: b"variables", TPM: b"secrets"}
    # Nothing of what was in the volume is left behind it.
    assert target.stat().st_size == 1 << 20
    copy.remove_rest()
    assert os.listdir(tmp_path / "run") == []


def test_state_that_cannot_be_read_is_told(tmp_path: Path, claim: Path) -> None:
    (claim / "swtpm.current").write_bytes(b"../elsewhere")
    with pytest.raises(WrongState, match=r"cannot be copied.*names no directory"):
        StateCopy(str(tmp_path / "run"), str(tmp_path)).pack()
