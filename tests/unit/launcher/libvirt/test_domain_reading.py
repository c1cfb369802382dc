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


def test_a_guest_that_starts_is_shown_without_vcpus() -> None:
    from kvedge.launcher.libvirt.domain_facts import Life, Why
    from kvedge.launcher.libvirt.domain_reading import read_look

    look = read_look(StartingDomain(), 9_000_000, {"/usr/bin/qemu": 7_002_022}.__getitem__)
    assert (look.life, look.why, look.vcpus) == (Life.PAUSED, Why.STARTING_UP, ())
    assert (look.id, look.libvirt, look.qemu) == (1, 9_000_000, 7_002_022)
