"""The volumes of a launcher Pod whose files the guest gets."""

from __future__ import annotations

from kvedge.controller.vmi.launcher_pod.launcher_pod_files import make_mounted_files
from kvedge.resources.codec import encode
from tests.support.builders import vmi_with, with_volumes

LICENCE = {"name": "licence", "secret": {"secretName": "windows"}}


def test_a_secret_without_a_disk_is_mounted_when_it_brings_an_acpi_table() -> None:
    asking = with_volumes(LICENCE, without_disk="licence", firmware={"acpi": {"slicNameRef": "licence"}})
    ((volume, mount),) = make_mounted_files(vmi_with(asking), set())
    assert encode(volume)["secret"] == {"secretName": "windows"}
    assert (mount.mount_path, mount.read_only) == ("/var/run/kubevirt-private/secret/licence", True)
    silent = with_volumes(LICENCE, without_disk="licence")
    assert make_mounted_files(vmi_with(silent), set()) == []
