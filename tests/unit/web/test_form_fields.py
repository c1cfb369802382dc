"""What `kvedge launch` makes of a form, and at which field an error is shown."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NoReturn

import pytest

from kvedge.client.errors import FlagError
from kvedge.web.form_fields import field_of_flag, field_of_path, read_form

_FORM = {"source": "image", "image": "local/debian:12", "name": "web"}


def test_a_form_becomes_the_manifest_of_launch() -> None:
    document = read_form(
        {
            **_FORM,
            "cpus": "2",
            "memory": "512Mi",
            "user": "me",
            "password": " p w ",
            "sshKeys": "ssh-ed25519 A\n",
            "networks": "lan, shop/dmz",
        }
    )
    spec = document["spec"]["template"]["spec"]
    assert spec["domain"]["cpu"] == {"cores": 2}
    assert [network["name"] for network in spec["networks"]] == ["default", "lan", "shop-dmz"]
    user_data = spec["volumes"][1]["cloudInitNoCloud"]["userData"]
    assert 'password: " p w "' in user_data
    assert "ssh-ed25519 A" in user_data


def test_fields_of_another_source_count_for_nothing() -> None:
    document = read_form({**_FORM, "source": "claim", "claim": "root", "disk": "1Gi", "storageClass": "fast"})
    assert document["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "root"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source": "tape"}, "source"),
        ({"image": ""}, "image"),
        ({"image": "/etc/passwd", "disk": "1Gi"}, "image"),
        ({"image": "./a.qcow2", "disk": "1Gi"}, "image"),
        ({"image": "https://example.org/a"}, "disk"),
        ({"cpus": "0"}, "cpus"),
        ({"cpus": "٣"}, "cpus"),
        ({"memory": "much"}, "memory"),
        ({"disk": "much"}, "disk"),
        ({"type": "u1.small", "cpus": "1"}, "type"),
        ({"sshKeys": "-----BEGIN PRIVATE KEY-----"}, "sshKeys"),
        ({"password": "a\nb"}, "password"),
        ({"user": "x" * 20_000}, "user"),
        ({"image": f"{'x' * 5000}.qcow2"}, "image"),
        ({"name": "x" * 3000}, "name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_makes_no_sense_is_told_at_its_field(change: dict[str, str], field: str) -> None:
    with pytest.raises(FlagError) as refused:
        read_form({**_FORM, **change})
    assert field_of_flag(refused.value.flag) == field


@pytest.mark.parametrize(
    "image", ["disk.qcow2", "~root/disk.img", "~nobody-of-that-name/a", "https://example.org/a.iso"]
)
@pytest.mark.parametrize("disk", ["", "20Gi"])
def test_no_form_makes_the_console_look_for_a_file(image: str, disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(path: Path) -> NoReturn:
        raise AssertionError(f"{path} was looked for")

    monkeypatch.setattr(Path, "is_file", look)
    monkeypatch.setattr(Path, "expanduser", look)
    with contextlib.suppress(FlagError):
        read_form({**_FORM, "image": image, "disk": disk})


def test_an_image_that_is_called_as_a_file_is_an_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "disk.qcow2").touch()
    monkeypatch.chdir(tmp_path)
    document = read_form({**_FORM, "image": "disk.qcow2"})
    assert document["spec"]["template"]["spec"]["volumes"][0]["containerDisk"] == {"image": "disk.qcow2"}


def test_the_server_s_paths_lead_to_fields() -> None:
    assert field_of_path("spec.template.spec.domain.memory.guest") == "memory"
    assert field_of_path("spec.template.spec.domain.firmware") == ""
