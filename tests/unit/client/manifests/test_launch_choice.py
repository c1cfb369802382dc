"""What a user chooses for a new VM: which choices go together, and what a form's field hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.client.errors import FlagError, UsageError
from kvedge.client.manifests.launch_choice import LaunchChoice, launch_options, read_keys
from kvedge.client.manifests.vm_manifest import launch_manifest


@pytest.mark.parametrize(
    ("choice", "flag", "why"),
    [
        ({"image": ""}, "image", "is no image"),
        ({"image": "a b"}, "image", "is no image"),
        ({"image": "a", "run_strategy": "Sometimes"}, "run-strategy", "is not one of Always"),
        ({"image": "a", "type": "u1.small", "memory": "1Gi"}, "type", "instance type and memory exclude"),
        ({"image": "a", "type": "u1.small", "cpus": 2}, "type", "instance type and cpu exclude"),
        ({"image": "https://example.org/a.img"}, "disk", "needed here"),
        ({"image": "a", "storage_class": "fast"}, "disk", "needed here"),
        ({"claim": "root", "disk": "1Gi"}, "disk", "is used as it is"),
        ({"data_source": "debian"}, "disk", "needs a size"),
        ({"image": "a", "installs": True}, "install", "the empty disk that it installs to"),
        ({"image": "./a.iso", "installs": True, "disk": "9Gi"}, "install", "`kvedge image import FILE NAME`"),
        ({"image": "a", "cdroms": ("b", "https://example.org/a.iso")}, "cdrom", "is a file or a URL"),
        ({"image": "a", "cdroms": ("a b",)}, "cdrom", "is no image"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_choices_that_do_not_go_together_are_refused_at_their_flag(choice: Any, flag: str, why: str) -> None:
    with pytest.raises(FlagError) as refused:
        launch_options(LaunchChoice(name="web", **choice))
    assert (refused.value.flag, why in refused.value.why) == (flag, True)


def test_a_claim_is_the_disk_as_it_is() -> None:
    document = launch_manifest(launch_options(LaunchChoice(claim="root", name="web")))
    assert document["spec"]["template"]["spec"]["volumes"] == [
        {"name": "system", "persistentVolumeClaim": {"claimName": "root"}}
    ]
    assert "dataVolumeTemplates" not in document["spec"]


def test_a_data_source_is_copied_to_a_disk_of_the_vm() -> None:
    document = launch_manifest(launch_options(LaunchChoice(data_source="debian", disk="20Gi", name="web")))
    [template] = document["spec"]["dataVolumeTemplates"]
    assert template["spec"] == {
        "sourceRef": {"kind": "DataSource", "name": "debian"},
        "storage": {"resources": {"requests": {"storage": "20Gi"}}},
    }


def test_keys_come_one_a_line_or_with_commas() -> None:
    assert read_keys("ssh-key", "# mine\nssh-ed25519 A me\n\nssh-rsa B, ssh-rsa C\n", "k") == (
        "ssh-ed25519 A me",
        "ssh-rsa B",
        "ssh-rsa C",
    )
    with pytest.raises(FlagError, match="is a private key"):
        read_keys("ssh-key", "-----BEGIN OPENSSH PRIVATE KEY-----", "k")


@pytest.mark.parametrize("may_be_file", [True, False])
def test_a_file_of_this_computer_is_looked_for_where_it_may_be_one(may_be_file: bool, tmp_path: Path) -> None:
    image = tmp_path / "disk.qcow2"
    image.touch()
    options = launch_options(LaunchChoice(image=str(image), name="web", disk="1Gi", may_be_file=may_be_file))
    assert options.disk is not None
    assert options.disk.file == (image if may_be_file else None)


@pytest.mark.parametrize("choice", [{"image": "win.iso", "installs": True}, {"image": "a", "cdroms": ("win.iso",)}])
def test_a_file_beside_the_user_is_no_image_of_a_drive(
    choice: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    launch_options(LaunchChoice(name="w", disk="64Gi", **choice))
    (tmp_path / "win.iso").touch()
    with pytest.raises(FlagError, match="`kvedge image import FILE NAME`"):
        launch_options(LaunchChoice(name="w", disk="64Gi", **choice))
    launch_options(LaunchChoice(name="w", disk="64Gi", may_be_file=False, **choice))


def test_a_name_that_is_too_long_for_a_file_is_an_image() -> None:
    assert launch_options(LaunchChoice(image=f"{'x' * 5000}.qcow2", name="web")).disk is None


def test_the_home_of_nobody_has_no_file() -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        launch_options(LaunchChoice(image="~nobody-of-that-name/a.img", name="web", disk="1Gi"))
