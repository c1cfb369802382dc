"""What becomes of libvirt's documents."""

from __future__ import annotations

import pytest

from kvedge.launcher.libvirt.node_capabilities import HostDocuments, read_capabilities
from tests.support.values import replace

DOMAIN = """
<domainCapabilities>
  <path>/usr/bin/qemu-system-x86_64</path><domain>kvm</domain><arch>x86_64</arch>
  <cpu>
    <mode name='host-model' supported='yes'>
      <model fallback='forbid'>Skylake-Client-IBRS</model><vendor>Intel</vendor>
      <feature policy='require' name='ss'/><feature policy='disable' name='mpx'/>
    </mode>
    <mode name='custom' supported='yes'>
      <model usable='yes'>qemu64</model><model usable='no'>EPYC</model><model usable='yes'>Penryn</model>
    </mode>
  </cpu>
  <features>
    <hyperv supported='yes'><enum name='features'><value>vapic</value><value>relaxed</value></enum></hyperv>
  </features>
</domainCapabilities>
"""
HOST = """
<capabilities>
  <guest><arch name='i686'><machine>pc-old</machine></arch></guest>
  <guest><arch name='x86_64'><machine maxCpus='288'>pc-q35-9.0</machine><machine>q35</machine>
    <machine canonical='pc-i440fx-2.0' deprecated='yes'>pc</machine></arch></guest>
</capabilities>
"""
MODEL = "<cpu><feature policy='require' name='vmx'/><feature policy='disable' name='mpx'/><feature name='aes'/></cpu>"


def documents(domain: str = DOMAIN, model: str = MODEL) -> HostDocuments:
    return HostDocuments(domain_capabilities=domain, capabilities=HOST, host_model=model, libvirt=9000000, qemu=7002022)


def test_the_facts_are_those_of_this_architecture_and_accelerator() -> None:
    found = read_capabilities(documents())
    assert found.emulator == "/usr/bin/qemu-system-x86_64"
    assert found.host_cpu_model == "Skylake-Client-IBRS"
    assert (found.host_model_features, found.cpu_vendor) == (("ss",), "Intel")
    assert found.cpu_models == ("Penryn", "qemu64")
    assert found.known_models == ("EPYC", "Penryn", "qemu64")
    # Guests of the host's own model find what it requires here, whatever libvirt says of it at length.
    assert found.cpu_features == ("aes", "ss", "vmx")
    assert found.machine_types == ("pc", "pc-q35-9.0", "q35")
    assert found.deprecated_machines == ("pc",)
    assert found.hyperv_features == ("relaxed", "vapic")
    assert (found.libvirt_version, found.qemu_version) == ("9.0.0", "7.2.22")


def test_without_an_expanded_model_the_named_features_are_all_there_is_to_say() -> None:
    assert read_capabilities(documents(model="")).cpu_features == ("ss",)


def test_a_host_without_a_model_has_none() -> None:
    bare = DOMAIN.replace("name='host-model' supported='yes'", "name='host-model' supported='no'")
    found = read_capabilities(documents(bare, model=""))
    assert (found.host_cpu_model, found.cpu_features) == ("", ())
    assert (found.host_model_features, found.cpu_vendor) == ((), "")


@pytest.mark.parametrize(
    ("domain", "counter", "found"),
    [
        (DOMAIN, "<counter name='tsc' frequency='2399998000' scaling='yes'/>", (2399998000, True)),
        (DOMAIN, "<counter name='tsc' frequency='2399998000' scaling='no'/>", (2399998000, False)),
        (DOMAIN, "<counter name='other' frequency='1' scaling='yes'/>", (0, False)),
        (DOMAIN, f"<counter name='tsc' frequency='{'9' * 40}' scaling='yes'/>", (0, False)),
        (DOMAIN.replace(">kvm<", ">qemu<"), "<counter name='tsc' frequency='2' scaling='yes'/>", (0, False)),
    ],
    ids=["scalable", "not scalable", "none", "too much", "emulated"],
)
def test_the_counter_is_the_hosts_where_guests_have_it(domain: str, counter: str, found: tuple[int, bool]) -> None:
    told = replace(
        documents(domain), capabilities=HOST.replace("<guest>", f"<host><cpu>{counter}</cpu></host><guest>", 1)
    )
    made = read_capabilities(told)
    assert (made.tsc_frequency, made.tsc_scalable) == found


SEV = "<sev supported='yes'><cbitpos>51</cbitpos><maxGuests>400</maxGuests>{}</sev>"
KINDS = "<launchSecurity supported='yes'><enum name='sectype'>{}</enum></launchSecurity>"


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ("<sev supported='no'/>", ()),
        (SEV.format(""), ("sev",)),
        (SEV.format("<maxESGuests>0</maxESGuests>"), ("sev",)),
        (SEV.format("<maxESGuests>99</maxESGuests>"), ("sev", "sev-es")),
        (SEV.format("") + KINDS.format("<value>sev</value><value>sev-snp</value>"), ("sev", "sev-snp")),
        ("<sev supported='no'/>" + KINDS.format("<value>tdx</value>"), ("tdx",)),
        ("<sev supported='no'/>" + KINDS.format("<value>sev-snp</value><value>s390-pv</value>"), ()),
    ],
    ids=["none", "SEV", "no keys of ES", "SEV-ES", "SEV-SNP", "TDX", "SNP without SEV"],
)
def test_how_guests_can_be_encrypted_is_what_libvirt_says(features: str, found: tuple[str, ...]) -> None:
    domain = DOMAIN.replace("<features>", f"<features>{features}")
    assert read_capabilities(documents(domain)).launch_security == found
