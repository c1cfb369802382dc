"""Has libvirt's own QEMU driver judge a guest that AMD SEV encrypts, on a host without it; prints what it says as JSON.

Run by test_encrypted_domains.py as programs of their own (a process can open one embedded driver only):
`python -m tests.machine.launcher.encrypted_domain record|judge <directory>`. The first has libvirt write down what this
QEMU can do, and adds to it what libvirt would have found on a host with SEV: that is played, and nothing else is.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import libvirt

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
from kvedge.launcher.libvirt.qemu_record import record_path
from tests.machine.launcher.domain_starter import QEMU_CONF, _open
from tests.support.distribution_user import know_the_distributions_user
from tests.support.golden.domain_cases import load_case

EMULATOR = "/usr/bin/qemu-system-x86_64"
FLAG = "  <flag name='sev-guest'/>\n"
SEV = """\
  <sev>
    <cbitpos>47</cbitpos>
    <reducedPhysBits>1</reducedPhysBits>
    <pdh>cGxheWVk</pdh>
    <certChain>Y2hhaW4=</certChain>
    <cpu0Id>aWQ=</cpu0Id>
    <maxGuests>15</maxGuests>
    <maxESGuests>99</maxESGuests>
  </sev>
"""


def record(root: Path) -> dict[str, object]:
    """Whether this QEMU could have KVM, without which libvirt lets no guest be encrypted."""
    connection = _open(root)
    connection.getDomainCapabilities(EMULATOR, "x86_64", "q35", "qemu")
    connection.close()
    path = Path(record_path(str(root), EMULATOR))
    text = path.read_text()
    first = text.index("  <flag name=")
    path.write_text((text[:first] + FLAG + text[first:]).replace("</qemuCaps>", f"{SEV}</qemuCaps>"))
    shutil.rmtree(root / "etc")
    return {"kvm": "<flag name='kvm'/>" in text}


def judge(root: Path) -> dict[str, object]:
    """What becomes of the golden domain, and what libvirt tells of host and guest."""
    (root / "etc").mkdir()
    know_the_distributions_user(root)
    (root / "etc/qemu.conf").write_text(QEMU_CONF.format(uid=0, gid=0))
    xml = load_case("sev").xml_path.read_text()
    session = LibvirtSession(str(root), "default_sev")
    session.define(xml)
    platform = session.launch_security.platform()
    try:
        measured = repr(session.launch_security.measurement())
    except LauncherError as error:
        measured = str(error)
    connection = session._connection
    return {
        "capabilities": session.host_documents(emulation=False).domain_capabilities,
        "platform": [platform.pdh, platform.cert_chain],
        "measured": measured,
        "valid": connection.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE).name(),
        "command": connection.domainXMLToNative("qemu-argv", xml),
    }


if __name__ == "__main__":
    print(json.dumps({"record": record, "judge": judge}[sys.argv[1]](Path(sys.argv[2]))))
