"""What is read of a domain in the moments that libvirt's test driver does not have."""

from __future__ import annotations

from tests.support.needs import NEEDS_LIBVIRT

pytestmark = NEEDS_LIBVIRT


class StartingDomain:
    """As libvirt has it while QEMU starts: there is a process, and nothing is known of its threads."""

    def name(self) -> str:
        return "n_v"

    def UUIDString(self) -> str:
        return "u"

    def ID(self) -> int:
        return 1

    def state(self) -> list[int]:
        import libvirt

        return [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP]

    def XMLDesc(self) -> str:
        return "<domain><devices><emulator>/usr/bin/qemu</emulator></devices></domain>"

    def vcpus(self) -> None:
        import libvirt

        raise libvirt.libvirtError("cpu affinity is not supported")


class StoppedDomain(StartingDomain):
    """As libvirt has it once a disk could not be written; `errors` is None when it has no time to say more."""

    def __init__(self, errors: dict[str, int] | None) -> None:
        self.errors = errors

    def state(self) -> list[int]:
        import libvirt

        return [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR]

    def XMLDesc(self) -> str:
        disks = "".join(
            f"<disk><alias name='ua-{name}'/><target dev='{name[0]}'/></disk>" for name in ("ab", "cd", "ef")
        )
        return f"<domain><devices>{disks}</devices></domain>"

    def isPersistent(self) -> int:
        return 1

    def diskErrors(self) -> dict[str, int]:
        import libvirt

        if self.errors is None:
            raise libvirt.libvirtError("cannot acquire state change lock")
        return self.errors


def test_the_disks_that_have_paused_a_guest_are_read_with_what_ails_them() -> None:
    from kvedge.launcher.libvirt.domain_facts import DiskError, Why
    from kvedge.launcher.libvirt.domain_reading import read_facts

    facts = read_facts(StoppedDomain({"a": 2, "c": 1, "e": 0}), lambda: 7)
    assert (facts.why, facts.disk_errors) == (Why.IO_ERROR, (DiskError("ab", True), DiskError("cd", False)))
    assert read_facts(StoppedDomain(None), lambda: 7).disk_errors == ()


def test_a_guest_that_starts_is_shown_without_vcpus() -> None:
    from kvedge.launcher.libvirt.domain_facts import Life, Why
    from kvedge.launcher.libvirt.domain_reading import read_look

    look = read_look(StartingDomain(), 9_000_000, {"/usr/bin/qemu": 7_002_022}.__getitem__)
    assert (look.life, look.why, look.vcpus) == (Life.PAUSED, Why.STARTING_UP, ())
    assert (look.id, look.libvirt, look.qemu) == (1, 9_000_000, 7_002_022)


GROWING = """
<domain>
  <memory unit='KiB'>3145728</memory>
  <devices>
    <memory model='virtio-mem'>
      <target>
        <size unit='KiB'>2097152</size>
        <node>0</node>
        <block unit='KiB'>2048</block>
        <requested unit='KiB'>1048576</requested>
        <current unit='KiB'>524288</current>
      </target>
      <alias name='virtiomem0'/>
    </memory>
  </devices>
</domain>
"""


class GrowingDomain(StartingDomain):
    """A guest that takes memory into use."""

    def __init__(self, document: str) -> None:
        self.document = document

    def XMLDesc(self) -> str:
        return self.document

    def UUIDString(self) -> str:
        return "u"

    def isPersistent(self) -> int:
        return 1


def test_memory_is_what_there_was_at_the_start_and_what_came_beside_it() -> None:
    from kvedge.launcher.libvirt.domain_facts import MemoryFacts
    from kvedge.launcher.libvirt.domain_reading import read_facts

    mib = 1 << 20
    found = read_facts(GrowingDomain(GROWING), lambda: 7).memory
    assert found == MemoryFacts(boot=1024 * mib, room=2048 * mib, requested=1024 * mib, plugged=512 * mib)
    plain = "<domain><memory unit='KiB'>1024</memory><devices/></domain>"
    assert read_facts(GrowingDomain(plain), lambda: 7).memory == MemoryFacts(boot=mib)


def test_the_device_is_asked_for_another_size_and_else_stays_as_it_is() -> None:
    from xml.etree import ElementTree

    from kvedge.launcher.libvirt.domain_reading import memory_device_with

    text = memory_device_with(ElementTree.fromstring(GROWING), 2 << 20)
    assert text is not None
    device = ElementTree.fromstring(text)
    assert device.findtext("target/requested") == "2048"
    assert (device.findtext("target/size"), device.find("alias") is not None) == ("2097152", True)
    assert memory_device_with(ElementTree.fromstring("<domain/>"), 0) is None
