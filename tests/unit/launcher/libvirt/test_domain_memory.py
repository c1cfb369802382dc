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


def test_vcpus_keep_the_order_in_which_they_were_plugged_in_where_they_are_as_many() -> None:
    from kvedge.launcher.libvirt.domain_memory import with_saved_vcpus

    had = "<vcpus><vcpu id='0' enabled='yes' hotpluggable='no' order='1'/><vcpu id='1' enabled='no'/></vcpus>"
    own = "<vcpus><vcpu id='0' enabled='yes' hotpluggable='no'/><vcpu id='1' enabled='no'/></vcpus>"
    made = with_saved_vcpus(f"<domain><name>x</name>{own}<os /></domain>", f"<domain>{had}</domain>")
    assert made.index("order=") < made.index("<os")
    assert made.count("<vcpus>") == 1
    more = own.replace("enabled='no'", "enabled='yes'")
    for kept in (f"<domain>{more}</domain>", "<domain/>"):
        assert with_saved_vcpus(kept, f"<domain>{had}</domain>") == kept
    assert with_saved_vcpus(f"<domain>{own}</domain>", "<domain/>") == f"<domain>{own}</domain>"


def test_the_frequency_is_the_one_that_the_guest_was_told_before() -> None:
    from kvedge.launcher.libvirt.domain_memory import with_saved_counter

    def document(*timers: str) -> str:
        return f'<domain><clock offset="utc">{"".join(timers)}</clock><os /></domain>'

    rtc, now, before = '<timer name="rtc" />', *(f'<timer name="tsc" frequency="{each}" />' for each in (7, 8))
    assert with_saved_counter(document(rtc, now), document(before)) == document(rtc, before)
    assert with_saved_counter(document(rtc), document(before)) == document(rtc, before)
    assert with_saved_counter(document(rtc, now), document(rtc)) == document(rtc)
    for kept in (document(rtc), "<domain/>"):
        assert with_saved_counter(kept, "<domain/>") == kept
