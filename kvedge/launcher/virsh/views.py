"""What `virsh` in the launcher's container prints: the texts of libvirt's own virsh, whose readers are often programs.

Called by `virsh_command`, with what the launcher says and the flags of the command line. Pure.
"""

from __future__ import annotations

from kvedge.launcher.virsh.description import Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from xml.etree.ElementTree import Element

    # By its word: the flags that were given, without dashes, and the values of options.
    View = Callable[[Description, Mapping[str, str]], str]

_ENDED = frozenset({"shut off", "crashed", "no state"})
_SOURCES = {"lease": "lease", "agent": "guest-agent"}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, quiet: bool) -> str:
    """Columns as virsh prints them; `quiet` leaves the headings out."""
    widths = [max(len(row[at]) for row in (headings, *rows)) for at in range(len(headings))]
    lines = [_line(row, widths) for row in rows]
    if quiet:
        return "".join(lines)
    rule = "-" * (sum(widths) + 3 * len(widths))
    return "".join([_line(headings, widths), f"{rule}\n", *lines, "\n"])


def list_domain(domain: Description, flags: Collection[str], *, quiet: bool) -> str:
    """`list`: the one domain, if its state is one that is asked for."""
    shown = [domain] if _is_listed(domain, flags) else []
    number = str(domain.id or "-")
    bare = {"id": number, "name": domain.name, "uuid": domain.uuid}
    wanted = [word for word in ("id", "uuid", "name") if word in flags]
    if wanted:
        lines = [" ".join(bare[word] for word in wanted) for _ in shown]
        return "".join(f"{line}\n" for line in lines) + ("" if quiet else "\n")
    return table(("Id", "Name", "State"), [(number, domain.name, domain.state) for _ in shown], quiet=quiet)


def _is_listed(domain: Description, flags: Collection[str]) -> bool:
    if not domain.name or "transient" in flags:
        return False
    states = {flag.removeprefix("state-") for flag in flags if flag.startswith("state-")}
    if states:
        known = {"running": "running", "paused": "paused", "shutoff": "shut off"}
        return domain.state in {known.get(state, "") for state in states} or (
            "other" in states and domain.state not in known.values()
        )
    return "all" in flags or (domain.state in _ENDED) == ("inactive" in flags)


def document(domain: Description, _options: Mapping[str, str]) -> str:
    """`dumpxml`."""
    return f"{domain.document}\n" if domain.document.endswith("\n") else f"{domain.document}\n\n"


def state(domain: Description, options: Mapping[str, str]) -> str:
    """`domstate`."""
    reason = f" ({domain.reason or 'unknown'})" if "reason" in options else ""
    return f"{domain.state}{reason}\n\n"


def info(domain: Description, _options: Mapping[str, str]) -> str:
    """`dominfo`."""
    root = _root(domain)
    seconds = sum(vcpu.run_ns for vcpu in domain.vcpus) / 1e9
    facts = {
        "Id": str(domain.id or "-"),
        "Name": domain.name,
        "UUID": domain.uuid,
        "OS Type": root.findtext("os/type", ""),
        "State": domain.state,
        "CPU(s)": str(_vcpu_counts(root)[1]),
        **({"CPU time": f"{seconds:.1f}s"} if domain.vcpus else {}),
        "Max memory": f"{root.findtext('memory', '0')} KiB",
        "Used memory": f"{root.findtext('currentMemory', root.findtext('memory', '0'))} KiB",
        "Persistent": "yes",
        "Autostart": "disable",
        "Managed save": "no",
    }
    return _facts(facts, 16) + "\n"


def vcpu_pins(domain: Description, options: Mapping[str, str], *, quiet: bool) -> str:
    """`vcpupin`, without a list of CPUs."""
    only = options.get("vcpu")
    rows = [(str(vcpu.number), vcpu.may_use) for vcpu in domain.vcpus if only in (None, str(vcpu.number))]
    return table(("VCPU", "CPU Affinity"), rows, quiet=quiet)


def vcpu_info(domain: Description, _options: Mapping[str, str]) -> str:
    """`vcpuinfo`."""
    parts = []
    for vcpu in domain.vcpus:
        allowed = _numbers(vcpu.may_use, domain.host_cpus)
        facts = {
            "VCPU": str(vcpu.number),
            "CPU": str(vcpu.host_cpu),
            "State": "blocked" if vcpu.waits else "running",
            "CPU time": f"{vcpu.run_ns / 1e9:.1f}s",
            "CPU Affinity": "".join("y" if cpu in allowed else "-" for cpu in range(domain.host_cpus)),
        }
        parts.append(_facts(facts, 16))
    return "\n".join(parts) + "\n"


def vcpu_count(domain: Description, options: Mapping[str, str]) -> str:
    """`vcpucount`: the table, or the one number that flags ask for."""
    most, now = _vcpu_counts(_root(domain))
    counts = {"maximum": most, "current": now}
    if "maximum" in options or "current" in options or "active" in options:
        return f"{counts['maximum' if 'maximum' in options else 'current']}\n\n"
    lives = ["config"] if domain.state in _ENDED else ["config", "live"]
    lines = [f"{name:<12} {live:<6} {number:>4}\n" for name, number in counts.items() for live in lives]
    return "".join(lines) + "\n"


def disks(domain: Description, options: Mapping[str, str], *, quiet: bool) -> str:
    """`domblklist`."""
    rows = []
    for disk in _root(domain).iterfind("devices/disk"):
        source, target = disk.find("source"), _attribute(disk, "target", "dev")
        place = "-" if source is None else source.get("file") or source.get("dev") or source.get("name") or "-"
        kind = (disk.get("type", ""), disk.get("device", "disk")) if "details" in options else ()
        rows.append((*kind, target, place))
    headings = ("Type", "Device") if "details" in options else ()
    return table((*headings, "Target", "Source"), rows, quiet=quiet)


def interfaces(domain: Description, _options: Mapping[str, str], *, quiet: bool) -> str:
    """`domiflist`."""
    rows = [
        (
            _attribute(nic, "target", "dev"),
            nic.get("type", ""),
            _attribute(nic, "source", "bridge"),
            _attribute(nic, "model", "type"),
            _attribute(nic, "mac", "address"),
        )
        for nic in _root(domain).iterfind("devices/interface")
    ]
    return table(("Interface", "Type", "Source", "Model", "MAC"), rows, quiet=quiet)


def addresses(domain: Description, options: Mapping[str, str], *, quiet: bool) -> str:
    """`domifaddr`: what the launcher's DHCP has given out, or what the guest's agent says."""
    source = _SOURCES.get(options.get("source", "lease"), "")
    rows = [
        (
            (found.guest_name if source == "guest-agent" else found.interface) or "-",
            found.mac or "-",
            "ipv6" if ":" in found.address else "ipv4",
            found.address,
        )
        for found in domain.addresses
        if found.source == source
    ]
    return table(("Name", "MAC address", "Protocol", "Address"), rows, quiet=quiet)


def versions(domain: Description) -> str:
    """`version`."""
    library = f"libvirt {_format_version(domain.libvirt)}"
    hypervisor = f"Running hypervisor: QEMU {_format_version(domain.qemu)}\n" if domain.qemu else ""
    return f"Using library: {library}\nUsing API: QEMU, within the launcher\n{hypervisor}\n"


def _root(domain: Description) -> Element:
    # Some milliseconds, for the views that need it.
    from xml.etree import ElementTree

    return ElementTree.fromstring(domain.document)


def _vcpu_counts(root: Element) -> tuple[int, int]:
    """How many CPUs the guest may have, and has."""
    vcpu = root.find("vcpu")
    most = int(vcpu.text or 1) if vcpu is not None else 1
    return most, int(vcpu.get("current", most)) if vcpu is not None else most


def _attribute(element: Element, child: str, name: str) -> str:
    found = element.find(child)
    return "-" if found is None else found.get(name, "-")


def _numbers(ranges: str, most: int) -> set[int]:
    found: set[int] = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), most) + 1))
    return found


def _facts(facts: Mapping[str, str], width: int) -> str:
    return "".join(f"{name + ':':<{width}}{value}\n" for name, value in facts.items())


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return " " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"


def _format_version(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"
