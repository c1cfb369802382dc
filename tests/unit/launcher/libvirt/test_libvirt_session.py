"""What is shown of a domain, as libvirt's own test driver has it; the machine tests ask QEMU's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.needs import NEEDS_LIBVIRT

pytestmark = NEEDS_LIBVIRT

DOMAIN = """
<domain type='test'>
  <name>n_v</name>
  <memory unit='MiB'>64</memory>
  <vcpu>2</vcpu>
  <os><type>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-of-test</emulator>
    <graphics type='vnc' passwd='sesame-1' socket='/run/vnc'/>
    <graphics type='spice' passwd='sesame-2'/>
  </devices>
</domain>
"""


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """libvirt's test driver, which a session gets in the place of QEMU's."""
    import libvirt

    from kvedge.launcher.libvirt import libvirt_session

    played = libvirt.open("test:///default")
    monkeypatch.setattr(libvirt, "open", lambda _uri: played)
    monkeypatch.setattr(libvirt_session, "start_event_loop", lambda: None)
    yield played
    played.close()


def test_a_domain_is_shown_with_all_of_its_document_but_the_passwords(played: Any) -> None:
    import libvirt

    from kvedge.launcher.libvirt.domain_facts import Life
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

    session = LibvirtSession("/nowhere", "n_v")
    assert session.look_closely() is None
    session.define(DOMAIN)
    look = session.look_closely()
    assert look is not None
    assert (look.name, look.id, look.life, look.vcpus) == ("n_v", 0, Life.SHUTOFF, ())
    session.start(paused=False)
    look = session.look_closely()
    assert look is not None
    assert (look.life, [place.number for place in look.vcpus]) == (Life.RUNNING, [0, 1])
    assert look.id > 0
    assert all(place.may_use for place in look.vcpus)
    assert "<graphics type='vnc'" in look.document
    # libvirt has them, and keeps them to itself.
    assert "sesame" in played.lookupByName("n_v").XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE)
    assert "sesame" not in look.document


def test_the_version_of_qemu_is_that_of_libvirts_record_and_no_qemu_is_started_to_learn_it(
    played: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Asked for the version, or for what the host can do, libvirt starts every QEMU that is installed."""
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.libvirt.qemu_record import record_path

    asked: list[str] = []
    for question in ("getVersion", "getCapabilities", "getDomainCapabilities"):
        monkeypatch.setattr(type(played), question, lambda *_: asked.append("libvirt"))
    session = LibvirtSession(str(tmp_path), "n_v")
    session.define(DOMAIN)
    session.start(paused=False)
    look = session.look_closely()
    assert look is not None
    assert look.qemu == 0
    record = Path(record_path(str(tmp_path), "/usr/bin/qemu-of-test"))
    record.parent.mkdir(parents=True)
    record.write_text("<qemuCaps><version>7002022</version></qemuCaps>")
    look = session.look_closely()
    assert look is not None
    assert (look.qemu, asked) == (7_002_022, [])
