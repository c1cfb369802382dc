"""The image of the specs' helpers."""

from __future__ import annotations

from tests.conformance.images_provider import provider_image, provider_pod
from tests.conformance.job_image import libraries_of


def test_the_image_of_jobs_holds_what_bash_is_linked_with() -> None:
    linked = """\
\tlinux-vdso.so.1 (0x00007f850c407000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f850c0a0000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f850c409000)
"""
    assert libraries_of(linked) == ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]


def test_the_pod_with_a_disk_is_found_by_its_label_and_has_the_image_of_the_run() -> None:
    pod = provider_pod("system", "192.0.2.1:5443/kubevirt")
    assert pod["metadata"]["labels"] == {"kubevirt.io": "disks-images-provider"}
    (container,) = pod["spec"]["containers"]
    assert (container["name"], container["image"]) == ("target", provider_image("192.0.2.1:5443/kubevirt"))
