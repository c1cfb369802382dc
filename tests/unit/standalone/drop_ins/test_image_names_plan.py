"""What dropped disks are called, and when a file is imported."""

from __future__ import annotations

import pytest

from kvedge.standalone.drop_ins.image_names_plan import NoName, Step, Taken, disk_name, name_taken_by, plan_file

KNOWN = Taken(signature=(1, 2, 3, 4, 5), digest="sha256:a", names=("docker.io/local/fedora:latest",))


@pytest.mark.parametrize(
    ("file_name", "name"),
    [
        ("fedora-40.qcow2", "local/fedora-40"),
        ("Fedora-Cloud_40.QCOW2", "local/fedora-cloud_40"),
        ("ubuntu-24.04.img.xz", "local/ubuntu-24.04"),
        ("fedora:40.qcow2", "local/fedora:40"),
        ("windows.raw", "local/windows"),
        ("disk", "local/disk"),
    ],
)
def test_a_disk_is_called_as_its_file_without_endings(file_name: str, name: str) -> None:
    assert disk_name(file_name) == name


@pytest.mark.parametrize("file_name", ["my disk.qcow2", ".qcow2", "ä.img", "a@b.img", "a:b:c.img", "-.img"])
def test_a_name_that_no_image_can_have_says_to_rename_the_file(file_name: str) -> None:
    with pytest.raises(NoName, match="rename the file"):
        disk_name(file_name)


def test_two_files_do_not_fight_for_one_name() -> None:
    assert name_taken_by("local/fedora", "fedora.img", {"fedora.qcow2": KNOWN}) == "fedora.qcow2"
    assert name_taken_by("local/fedora", "fedora.qcow2", {"fedora.qcow2": KNOWN}) == ""
    assert name_taken_by("", "archive.tar", {"fedora.qcow2": KNOWN}) == ""


@pytest.mark.parametrize(
    ("known", "digest", "there", "step"),
    [
        pytest.param(None, "sha256:a", False, Step.IMPORT, id="new"),
        pytest.param(KNOWN, "sha256:b", True, Step.IMPORT, id="another content"),
        pytest.param(KNOWN, "sha256:a", True, Step.REMEMBER, id="touched only"),
        pytest.param(KNOWN, "sha256:a", False, Step.IMPORT, id="copied anew after its image was removed"),
        pytest.param(
            Taken(signature=(1, 1, 1, 1, 1), digest="sha256:a", error="no disk"),
            "sha256:a",
            True,
            Step.REMEMBER,
            id="the same bad content",
        ),
    ],
)
def test_content_decides_what_is_imported(known: Taken | None, digest: str, there: bool, step: Step) -> None:
    assert plan_file(known, digest, images_are_there=there) is step
