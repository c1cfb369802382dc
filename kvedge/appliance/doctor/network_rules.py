"""Whether kvedge's port, networks and load balancers fit this host, and which resolver and firewall are beside kvedge.

Called by `doctor_rules`. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from kvedge.appliance.doctor.findings import DoctorOptions, Finding, Level, version_text
from kvedge.appliance.doctor.host_facts import HostFacts, Version
from kvedge.network.address_plan import gateway_address
from kvedge.runtime.address_pool import AddressPool, address_pool
from kvedge.runtime.address_ranges import address_ranges

# An address carries its maker (IFA_PROTO) from kernel 5.18 on.
_KERNEL_OF_POOLS: Final[Version] = (5, 18)
# The length of a network that is one address.
_ALONE: Final = 32


def check_network(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The port, the address ranges, load balancers and names."""
    if facts.port_refusal and not facts.kvedge_runs:
        detail = f"{options.port} cannot be listened on: {facts.port_refusal}"
        yield Finding("port", Level.FAIL, detail, "set port, or stop who has it (ss -ltnp)")
    else:
        yield Finding("port", Level.OK, f"{options.port} is {'ours' if facts.kvedge_runs else 'free'}")
    for what, given in (("pod", options.pod_cidr), ("service", options.service_cidr)):
        for cidr in address_ranges(given).all:
            yield from _range(facts, what, cidr)
    if options.load_balancer_pool:
        yield from _pool(facts, address_pool(options.load_balancer_pool))
    if facts.resolvers:
        yield Finding("dns", Level.OK, ", ".join(facts.resolvers))
    else:
        yield Finding("dns", Level.INFO, "no name server in /etc/resolv.conf: guests are told none until there is one")
    if facts.resolved_runs:
        yield Finding("host names", Level.OK, "systemd-resolved asks kvedge for names below cluster.local")
    else:
        server = gateway_address(address_ranges(options.pod_cidr).ipv4)
        detail = "without systemd-resolved this host itself finds no names of VMs and Services; guests do"
        remedy = f"have its resolver ask {server} for them, as dnsmasq by server=/cluster.local/{server}"
        yield Finding("host names", Level.INFO, detail, remedy)


def check_filters(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """Firewalls of others: kvedge leaves them as they are."""
    bridge = facts.bridge
    if facts.filters is None:
        yield Finding("firewall", Level.INFO, "only root can see whether another one drops what guests send")
        return
    if not facts.filters:
        yield Finding("firewall", Level.OK, "none drops what is forwarded")
    for name in facts.filters:
        remedy = (
            f"firewall-cmd --permanent --zone=trusted --add-interface={bridge}, then firewall-cmd --reload"
            if name == "firewalld"
            else f"let {bridge} pass there both ways (Docker: in its chain DOCKER-USER; ufw: by ufw route allow)"
        )
        detail = f"{name} drops what guests send to the outside, unless a rule there lets {bridge} pass"
        yield Finding("firewall", Level.INFO, detail, remedy)


def _range(facts: HostFacts, what: str, cidr: str) -> Iterator[Finding]:
    """Whether a range of ours is one that the host is in."""
    wanted = ipaddress.ip_network(cidr)
    clashes = [
        f"{link} ({network})"
        for link, networks in facts.networks.items()
        for network in networks
        if ipaddress.ip_network(network, strict=False).overlaps(wanted)
    ]
    if clashes and not facts.kvedge_runs:
        remedy = f"set {what}-cidr to a network that this site does not use"
        yield Finding(f"{what} network", Level.FAIL, f"{cidr} overlaps with {', '.join(clashes)}", remedy)
    else:
        yield Finding(f"{what} network", Level.OK, f"{cidr} is free" if not clashes else cidr)


def _pool(facts: HostFacts, pool: AddressPool) -> Iterator[Finding]:
    """Whether load balancers of one box get addresses that are free, and that the LAN looks for here."""
    check, remedy = "load balancers", "set load-balancer-pool to addresses that nobody else has"
    if facts.kernel < _KERNEL_OF_POOLS:
        kernel, least = version_text(facts.kernel), version_text(_KERNEL_OF_POOLS)
        detail = f"Linux {kernel} is older than {least}, which load-balancer-pool needs"
        yield Finding(check, Level.FAIL, detail, "leave load-balancer-pool out, or install a newer kernel")
        return
    found = [
        (link, ipaddress.IPv4Interface(network)) for link, networks in facts.networks.items() for network in networks
    ]
    # Of a box that runs, addresses without a network are those of its load balancers.
    own = [(link, at) for link, at in found if not (facts.kvedge_runs and at.network.prefixlen == _ALONE)]
    clashes = [f"{at.ip} of {link}" for link, at in own if at.ip in pool]
    if clashes:
        yield Finding(check, Level.FAIL, f"load-balancer-pool has {', '.join(clashes)}, the host's own", remedy)
        return
    away = [str(each) for each in pool.of_version(4) if not any(each.first in at.network for _, at in own)]
    if away:
        detail = f"{', '.join(away)} is in no network of this host: the LAN's router has to lead it here"
        yield Finding(check, Level.INFO, detail)
    else:
        yield Finding(check, Level.OK, f"get an address of {', '.join(str(each) for each in pool.ranges)}")
