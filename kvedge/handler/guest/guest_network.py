"""What the handler makes of a VMI's interfaces in its Pod's network namespace, and what DHCP will tell the guest.

Called by the sync loop. The links are made by `kvedge.network`; this decides which, and turns the result into what the
launcher is told. State per VMI is a record under the handler's directory, so that a handler that dies in the middle
goes on where it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.handler.guest.nic_binding import bind_nic, is_ready_made, passt_message, unbind_nic
from kvedge.handler.guest.tap_nodes import keep_tap_nodes
from kvedge.handler.guest.vmi_status import GuestNic
from kvedge.handler.held_process import HeldProcess
from kvedge.network.binding.binding_state import is_link_local, names_for
from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.binding.macvtap_binding import macvtap_devices
from kvedge.network.binding.router_socket import hand_router_socket, router_of
from kvedge.network.dhcp import dhcp_plan
from kvedge.network.errors import NetworkError
from kvedge.network.host_resolver import LONGEST_RESOLV_CONF, host_resolv_conf
from kvedge.resources.configuration.configuration import DEFAULTS, BindingPlugin, Configuration
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.guest_nics import POD_NIC, nic_queues, pod_interfaces
from kvedge.resources.types.pod_networks import lan_interfaces, pod_nic
from kvedge.resources.types.vmi import DOMAIN_SOURCE, VirtualMachineInstance
from kvedge.resources.values.ip_addresses import plain_ip
from kvedge.rpc.launcher_pb2 import DhcpLease, GuestInterface, Ipv6Lease, Route
from kvedge.storage.beneath import open_regular

# Long enough to be no load, short enough that a changed DNS server arrives within the hour. KubeVirt's 999 days mean
# never.
LEASE_SECONDS: Final = 3600
# While there is no DNS server to tell, as where the node booted before its network was there: one is waited for.
LEASE_SECONDS_WITHOUT_DNS: Final = 600
_RESOLV_CONF: Final = "etc/resolv.conf"

Place = tuple[int, Interface, str]


class Resolver(Struct, frozen=True):
    """What a resolv.conf says."""

    nameservers: tuple[str, ...] = ()
    ipv6_nameservers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()

    @property
    def has_nameservers(self) -> bool:
        """Whether it names anybody to ask."""
        return bool(self.nameservers or self.ipv6_nameservers)


class PreparedNic(Struct, frozen=True):
    """One interface: for the launcher, for the VMI's status, and what the user should know of it, in sentences."""

    message: GuestInterface
    nic: GuestNic
    shortfalls: tuple[str, ...] = ()


def parse_resolv_conf(text: str) -> Resolver:
    """Name servers and search domains; a resolver on the loopback, or on one link, is of no use to a guest."""
    nameservers: list[str] = []
    ipv6_nameservers: list[str] = []
    search: list[str] = []
    for line in text.splitlines():
        words = line.split()
        server = plain_ip(words[1]) if len(words) >= 2 and words[0] == "nameserver" else ""
        if server and _reaches_guest(server):
            (ipv6_nameservers if ":" in server else nameservers).append(server)
        if len(words) >= 2 and words[0] in ("search", "domain"):
            search = words[1:]
    return Resolver(tuple(nameservers[:3]), tuple(ipv6_nameservers[:3]), tuple(search[:6]))


def _reaches_guest(nameserver: str) -> bool:
    if "%" in nameserver:
        return False
    try:
        return not ip_address(nameserver).is_loopback and not is_link_local(nameserver)
    except ValueError:
        return False


def hostname(vmi: VirtualMachineInstance) -> str:
    """The guest's host name: as asked for, else the VMI's name up to its first dot, as a DNS label."""
    return (vmi.spec.hostname or vmi.metadata.name.split(".")[0])[:63].rstrip("-")


class GuestNetwork:
    """Interfaces of all VMIs of this node."""

    def __init__(self, state: Path, configuration: Callable[[], Configuration] = lambda: DEFAULTS) -> None:
        """`configuration` is the one in force, which has the network binding plugins."""
        self._state = state
        self._configuration = configuration

    @property
    def plugins(self) -> Mapping[str, BindingPlugin]:
        """The network binding plugins in force."""
        return self._configuration().bindings

    def resolver(self, launcher: HeldProcess) -> Resolver:
        """The name servers for the guest of this launcher, now.

        Raises:
            NetworkError: when the launcher has ended.
        """
        return resolver_of(launcher)

    def prepare(
        self,
        vmi: VirtualMachineInstance,
        launcher: HeldProcess,
        resolver: Resolver,
        names: Collection[str] | None = None,
    ) -> list[PreparedNic]:
        """Make bridge and tap for each interface, or those of these names; what is there already stays as it is.

        Raises:
            NetworkError: when the kernel refused or the namespace is not as it was left.
        """
        with hold_network(launcher) as netns:
            wanted = [place for place in _places(vmi) if names is None or place[1].name in names]
            prepared = [self._prepare(vmi, place, netns, resolver) for place in wanted]
            self._keep_taps(vmi, launcher, netns)
            return prepared

    def release(self, vmi: VirtualMachineInstance, launcher: HeldProcess, place: tuple[int, Interface]) -> None:
        """Take away what was made for a NIC on another network which the guest has released.

        Raises:
            NetworkError: as `prepare`.
        """
        index, interface = place
        with hold_network(launcher) as netns:
            if is_ready_made(interface, self.plugins):
                # The link is whoever has made it's to remove; the guest's launcher has no business there any more.
                self._keep_taps(vmi, launcher, netns, released=True)
                return
            unbind_nic((index, interface, pod_nic(interface.name)), netns, self._state / vmi.metadata.uid)

    def keep(self, vmi: VirtualMachineInstance, launcher: HeldProcess) -> None:
        """Put right what somebody has undone of an interface that is filtered at each packet: translated, or a macvtap.

        A bridge needs nothing once it is there.

        Raises:
            NetworkError: as `prepare`.
        """
        plugins = self.plugins
        held = {row.name for row in vmi.status.interfaces if DOMAIN_SOURCE in row.sources}
        kept = [
            place
            for place in _places(vmi)
            if place[1].masquerade is not None or (place[1].name in held and is_ready_made(place[1], plugins))
        ]
        if kept:
            with hold_network(launcher) as netns:
                # First: a link that is gone has given its number away.
                self._keep_taps(vmi, launcher, netns)
                failed: NetworkError | None = None
                for place in kept:
                    try:
                        bind_nic(vmi, place, netns, self._state / vmi.metadata.uid, plugins)
                    except NetworkError as error:
                        # The others are kept all the same.
                        failed = failed or error
                if failed is not None:
                    raise failed

    def _keep_taps(
        self, vmi: VirtualMachineInstance, launcher: HeldProcess, netns: int, *, released: bool = False
    ) -> None:
        """Give the launcher the devices of its guest's macvtaps, and no others; those that come wait for their link.

        `released`: the guest has given one back, so that there is something to take even if it has no other.
        """
        plugins = self.plugins
        places = [place for place in _places(vmi) if is_ready_made(place[1], plugins)]
        if places or released:
            names = {name for place in places for name in _link_names(place)}
            devices = macvtap_devices(netns)
            keep_tap_nodes(launcher, [device for name, device in devices.items() if name in names])

    def _prepare(
        self, vmi: VirtualMachineInstance, place: tuple[int, Interface, str], netns: int, resolver: Resolver
    ) -> PreparedNic:
        """`place`: the interface, by its number in the VMI, and the Pod's NIC that it is bound to."""
        _, interface, nic_of_pod = place
        directory = self._state / vmi.metadata.uid
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        bound = bind_nic(vmi, place, netns, directory, self.plugins)
        router = router_of(_router_gateway(bound), bound.peer_index)
        own = tuple(each for each in (bound.address, bound.ipv6.address if bound.ipv6 else "") if each)
        addresses = bound.pod_addresses or own
        nic = GuestNic(
            interface.name,
            bound.mac,
            addresses,
            nic_of_pod,
            nic_queues(vmi, interface),
            "down" if interface.state == "down" else "up",
            is_translated=bool(bound.pod_addresses),
        )
        message = interface_message(vmi, interface, bound, resolver, router)
        if interface.passt_binding is not None:
            message.passt.CopyFrom(passt_message(vmi, interface, nic_of_pod))
        plugin = self.plugins.get(interface.binding.name) if interface.binding is not None else None
        message.refresh_link = plugin is not None and plugin.refreshes_link
        # A network besides the Pod's need not give addresses: its own DHCP server answers the guest, or nobody.
        is_told = nic_of_pod == POD_NIC or bool(addresses)
        return PreparedNic(message, nic, tuple(_shortfalls(bound, router)) if is_told else ())

    def introduce_routers(self, launcher: HeldProcess, prepared: Iterable[PreparedNic]) -> None:
        """Give the launcher, which has been told of these NICs, what it needs to speak as their router.

        Raises:
            NetworkError: when the launcher does not take it: its guest then has no IPv6, and all else.
        """
        for item in prepared:
            if item.message.HasField("ipv6"):
                with hold_network(launcher) as netns:
                    hand_router_socket(netns, item.message.bridge, launcher.pid)

    def forget(self, vmi_uid: str) -> None:
        """Remove the records of a VMI that is gone; its links went with the Pod's namespace."""
        shutil.rmtree(self._state / vmi_uid, ignore_errors=True)


def _places(vmi: VirtualMachineInstance) -> list[Place]:
    """Each interface that is not to be absent, by its number in the VMI, and the Pod's NIC that it is bound to."""
    places = [(index, item, POD_NIC) for index, item in pod_interfaces(vmi)]
    return [*places, *((index, item, pod_nic(item.name)) for index, item, _ in lan_interfaces(vmi))]


def _link_names(place: Place) -> tuple[str, str]:
    """What the link of a ready-made interface may be called."""
    index, _, nic = place
    return nic, names_for(nic, index).tap


def _router_gateway(bound: BoundInterface) -> str:
    return bound.ipv6.gateway if bound.ipv6 else ""


def _shortfalls(bound: BoundInterface, router: str) -> Iterator[str]:
    yield from bound.shortfalls
    gateway = _router_gateway(bound)
    if gateway and not router:
        yield (
            f"the Pod's IPv6 gateway {gateway} is not of this node, so that nobody can tell the guest of it: the guest "
            "reaches its own IPv6 subnet alone, unless its network is configured by hand"
        )


def interface_message(
    vmi: VirtualMachineInstance, interface: Interface, bound: BoundInterface, resolver: Resolver, router: str = ""
) -> GuestInterface:
    """What the launcher is told of one interface; without an address of the Pod nobody answers DHCP.

    `router` is the link-local address of the Pod's IPv6 gateway, if it is known.
    """
    message = GuestInterface(name=interface.name, tap=bound.tap, bridge=bound.bridge, mac=bound.mac, mtu=bound.mtu)
    if bound.address:
        message.dhcp.CopyFrom(_lease(vmi, interface, bound, resolver))
    if bound.ipv6 is not None:
        lease = Ipv6Lease(
            address=bound.ipv6.address,
            server_mac=bound.bridge_mac,
            router=router,
            is_default=bound.ipv6.is_default,
            subnet=bound.ipv6.subnet,
            routes=bound.ipv6.routes,
            dns=resolver.ipv6_nameservers,
            search=search_of(vmi, resolver),
            mtu=bound.mtu,
            lease_seconds=LEASE_SECONDS,
        )
        message.ipv6.CopyFrom(lease)
    return message


def _lease(vmi: VirtualMachineInstance, interface: Interface, bound: BoundInterface, resolver: Resolver) -> DhcpLease:
    options = interface.dhcp_options
    search = search_of(vmi, resolver)
    return DhcpLease(
        address=bound.address,
        prefix_length=bound.prefix_length,
        server=bound.server,
        gateway=bound.gateway,
        routes=_routes(bound.routes),
        dns=resolver.nameservers,
        search=search,
        hostname=hostname(vmi),
        domain=max(search, key=len, default=""),
        mtu=bound.mtu,
        ntp=[plain_ip(server) for server in options.ntp_servers] if options else (),
        tftp_server=options.tftp_server_name if options else "",
        boot_file=options.boot_file_name if options else "",
        private_options={item.option: item.value for item in options.private_options} if options else {},
        lease_seconds=LEASE_SECONDS if resolver.has_nameservers else LEASE_SECONDS_WITHOUT_DNS,
    )


def search_of(vmi: VirtualMachineInstance, resolver: Resolver) -> list[str]:
    """The Pod's search domains; that of a VM's subdomain comes first, as in KubeVirt, so that it is the guest's own.

    A headless Service of the subdomain's name makes the cluster's DNS know HOSTNAME.SUBDOMAIN.NAMESPACE.svc.
    """
    services = f"{vmi.metadata.namespace}.svc"
    below = next((name for name in resolver.search if name == services or name.startswith(f"{services}.")), "")
    own = f"{vmi.spec.subdomain}.{below}"
    is_known = not vmi.spec.subdomain or not below or own in resolver.search
    return [*([] if is_known else [own]), *resolver.search]


def _routes(routes: Sequence[dhcp_plan.Route]) -> list[Route]:
    return [Route(destination=route.destination, gateway=route.gateway) for route in routes]


@contextmanager
def hold_network(launcher: HeldProcess) -> Iterator[int]:
    """The network namespace of a launcher's Pod.

    Raises:
        NetworkError: when the launcher has ended.
    """
    with ExitStack() as stack:
        try:
            netns = stack.enter_context(launcher.namespace("net"))
        except OSError as error:
            why = error.strerror or str(error)
            raise NetworkError(
                "cannot enter the network of the launcher's Pod", why=why, errno=error.errno or 0
            ) from error
        yield netns


def resolver_of(launcher: HeldProcess) -> Resolver:
    """What the Pod's resolv.conf says, else the host's: an image of a Pod need not have one.

    Raises:
        NetworkError: when the launcher has ended.
    """
    return parse_resolv_conf(_resolv_conf_of(launcher) or host_resolv_conf())


def _resolv_conf_of(launcher: HeldProcess) -> str:
    try:
        # No link is followed: the Pod's own would lead elsewhere in the Pod at best.
        with launcher.root() as root, open(open_regular(root, _RESOLV_CONF), "rb") as file:
            return file.read(LONGEST_RESOLV_CONF).decode(errors="replace")
    except ProcessLookupError as error:
        # The host's name servers are not its Pod's.
        raise NetworkError("cannot read the resolv.conf of the launcher's Pod", why=str(error.strerror)) from error
    except OSError:
        return ""
