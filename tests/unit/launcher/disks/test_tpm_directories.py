# Tests: kvedge/launcher/disks/tpm_directories.py
"""One directory of a TPM's state counts at each moment: the source's, until it is off for good, and then the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.disks.tpm_directories import accept_tpm, drop_tpm, make_tpm_directory
from kvedge.launcher.launcher_errors import WrongState

PLACE = "var/run/kubevirt-private/vmi-disks/persistent-state-for-this-vm"
STATE = "tpm2/tpm2-00.permall"


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """The claim of a VM that has run, with its first state."""
    place = tmp_path / PLACE
    place.mkdir(parents=True)
    fill(Path(make_tpm_directory(str(place), "")), "first")
    return place


def fill(directory: Path, content: str) -> None:
    """As swtpm does."""
    (directory / "tpm2").mkdir(exist_ok=True)
    (directory / STATE).write_text(content)


def current(claim: Path) -> str:
    """What a VM that starts now finds in its TPM."""
    return (Path(make_tpm_directory(str(claim), "")) / STATE).read_text()


def names(claim: Path) -> list[str]:
    return sorted(each.name for each in claim.iterdir())


def test_a_guest_that_comes_gets_an_empty_one_and_the_source_keeps_its_own(tmp_path: Path, claim: Path) -> None:
    coming = Path(make_tpm_directory(str(claim), "m-1"))
    assert (list(coming.iterdir()), names(claim)) == ([], ["swtpm", "swtpm-m-1"])
    fill(coming, "half")
    # A preparation that was killed is made again.
    assert list(Path(make_tpm_directory(str(claim), "m-1")).iterdir()) == []
    fill(coming, "moved")
    assert (claim / "swtpm" / STATE).read_text() == "first"
    drop_tpm(str(tmp_path), "m-1")
    drop_tpm(str(tmp_path), "m-1")
    assert (names(claim), current(claim)) == (["swtpm"], "first")


def test_what_came_counts_once_the_source_is_off_for_good_and_the_next_one_after_it(
    tmp_path: Path, claim: Path
) -> None:
    for number in ("m-1", "m-2"):
        fill(Path(make_tpm_directory(str(claim), number)), number)
        for _ in range(2):
            accept_tpm(str(tmp_path), number)
        # An order that comes late takes nothing away.
        drop_tpm(str(tmp_path), number)
        assert names(claim) == [f"swtpm-{number}", "swtpm.current"]
        # A preparation in that Pod, whose guest runs by now.
        assert (Path(make_tpm_directory(str(claim), number)) / STATE).read_text() == number
        assert current(claim) == number


def test_a_guest_that_is_lost_on_its_way_starts_with_what_counted_and_the_rest_goes(claim: Path) -> None:
    fill(Path(make_tpm_directory(str(claim), "m-1")), "lost")
    assert (current(claim), names(claim)) == ("first", ["swtpm"])


def test_a_state_that_did_not_come_whole_never_counts(tmp_path: Path, claim: Path) -> None:
    make_tpm_directory(str(claim), "m-1")
    with pytest.raises(WrongState, match="the state of the guest's TPM has not come"):
        accept_tpm(str(tmp_path), "m-1")
    assert current(claim) == "first"


def test_a_switch_that_was_killed_half_way_is_made_again(tmp_path: Path, claim: Path) -> None:
    fill(Path(make_tpm_directory(str(claim), "m-1")), "moved")
    (claim / "swtpm.next").write_text("swtpm-m")
    accept_tpm(str(tmp_path), "m-1")
    assert current(claim) == "moved"


def test_a_guest_without_such_a_tpm_is_left_alone(tmp_path: Path) -> None:
    accept_tpm(str(tmp_path), "m-1")
    drop_tpm(str(tmp_path), "m-1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "nvram", "swtpm-../x", "swtpm-" + "/" * 3])
def test_a_damaged_pointer_gives_nobody_another_tpm(claim: Path, content: str) -> None:
    (claim / "swtpm.current").write_text(content)
    with pytest.raises(OSError, match="names no directory"):
        make_tpm_directory(str(claim), "")
    assert (claim / "swtpm" / STATE).read_text() == "first"
