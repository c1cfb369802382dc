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
