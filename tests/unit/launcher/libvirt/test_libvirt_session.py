"""What is shown of a domain, as libvirt's own test driver has it; the machine tests ask QEMU's."""

from __future__ import annotations

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
    <graphics type='vnc' passwd='sesame-1' socket='/run/vnc'/>
    <graphics type='spice' passwd='sesame-2'/>
  </devices>
</domain>
"""


def test_a_domain_is_shown_with_all_of_its_document_but_the_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    import libvirt

    from kvedge.launcher.libvirt import libvirt_session
    from kvedge.launcher.libvirt.domain_facts import Life
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

    played = libvirt.open("test:///default")
    monkeypatch.setattr(libvirt, "open", lambda _uri: played)
    monkeypatch.setattr(libvirt_session, "start_event_loop", lambda: None)
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
    played.close()
