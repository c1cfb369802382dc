"""The documents by which memory is saved and resumed."""

from __future__ import annotations

from tests.support.needs import NEEDS_LIBVIRT

pytestmark = NEEDS_LIBVIRT
SAVED = "<domain><cpu mode='custom'><model>EPYC</model><topology sockets='1' /></cpu></domain>"


def test_memory_alone_is_saved() -> None:
    from kvedge.launcher.libvirt.domain_memory import render_save

    assert render_save("/m", ["vda"]) == (
        '<domainsnapshot><name>memory</name><memory snapshot="external" file="/m" /><disks><disk name="vda"'
        ' snapshot="no" /></disks></domainsnapshot>'
    )


def test_a_cpu_that_the_host_chooses_is_the_one_that_the_guest_had() -> None:
    from kvedge.launcher.libvirt.domain_memory import with_saved_cpu

    made = with_saved_cpu("<domain><cpu mode='host-model'><topology sockets='2' /></cpu><os /></domain>", SAVED)
    assert made == '<domain><cpu mode="custom"><model>EPYC</model><topology sockets="2" /></cpu><os /></domain>'
    for kept in ("<domain><cpu mode='host-passthrough'/></domain>", "<domain/>"):
        assert with_saved_cpu(kept, SAVED) == kept
