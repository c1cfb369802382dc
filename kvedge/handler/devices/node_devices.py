"""The devices of this node that may go to guests: looked for again and again, offered, and told of.

Made by the handler role. The thread of the device plugins looks by :meth:`plugins`, the node loop takes the report, and
the sync loop claims what a Pod has been given before its guest starts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.handler.devices.device_facts import NodeDevices, Offer
from kvedge.handler.devices.device_reports import device_reports
from kvedge.handler.devices.device_users import DeviceUsers, parse_environment
from kvedge.handler.devices.host_device_plugin import HostDevicePlugin
from kvedge.handler.devices.offer_plan import Bundles, plan_offers
from kvedge.handler.devices.sysfs_reading import read_devices
from kvedge.handler.held_process import HeldProcess
from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.host_devices.device_report import write_report
from kvedge.resources.host_devices.passed_devices import device_counts
from kvedge.resources.host_devices.permitted_devices import PermittedDevices
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# A stick that is pulled out is not offered for so long; and how long a node on which nothing is permitted keeps quiet.
_LOOK_SECONDS: Final = 2.0
_IDLE_SECONDS: Final = 60.0


class _Seen(Struct, frozen=True):
    devices: NodeDevices
    offers: tuple[Offer, ...]


class HostDevices:
    """What there is, as it was last seen, and a plugin for each resource of it."""

    def __init__(
        self,
        root: Path,
        nodes: Path,
        users: DeviceUsers,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        """`root` is above the host's /sys and /dev; `nodes` is where launchers' device nodes are made."""
        self._root = root
        self._nodes = nodes
        self._users = users
        self._clock = clock
        self._on_change = on_change
        self._lock = threading.Lock()
        self._permitted = PermittedDevices()
        self._plugins: dict[str, HostDevicePlugin] = {}
        self._seen = _Seen(NodeDevices(), ())
        self._looked: float | None = None

    def permit(self, permitted: PermittedDevices | None) -> None:
        """Offer what the KubeVirt object permits from now on."""
        with self._lock:
            self._permitted = permitted or PermittedDevices()
            self._looked = None

    def plugins(self) -> Collection[HostDevicePlugin]:
        """The plugins of the resources that this node has, or has had; looks at the node when it is time to."""
        with self._lock:
            changed = self._look_when_due()
            plugins = list(self._plugins.values())
        if changed:
            self._on_change()
        return plugins

    def report(self) -> str:
        """What the Node says of its devices."""
        with self._lock:
            self._look_when_due()
            seen, permitted = self._seen, self._permitted
        return write_report(list(device_reports(permitted, seen.devices, seen.offers, self._users.holders())))

    def claim(self, vmi: VirtualMachineInstance, launcher: HeldProcess) -> None:
        """Give a VMI's guest the devices that its Pod has.

        Raises:
            PodNotReady: while another VM has one of them, or what goes with it.
        """
        if not device_counts(vmi) or self._users.has(vmi):
            return
        try:
            environment = parse_environment(launcher.text("environ"))
        except OSError as error:
            raise PodNotReady(f"the node cannot see which devices the launcher's Pod has: {error}") from error
        with self._lock:
            seen = self._seen.devices
        if trouble := self._users.claim(vmi, environment, seen):
            raise PodNotReady(trouble)
        self._on_change()

    def _look_when_due(self) -> bool:
        now, pause = self._clock.monotonic(), _LOOK_SECONDS if self._permitted.own_resources else _IDLE_SECONDS
        if self._looked is not None and now - self._looked < pause:
            return False
        self._looked = now
        devices = read_devices(self._root)
        seen = _Seen(devices, tuple(plan_offers(self._permitted, devices, self._find_kept())))
        changed, self._seen = seen != self._seen, seen
        self._offer(seen.offers)
        return changed

    def _find_kept(self) -> Bundles:
        holders = self._users.holders()
        kept: dict[str, set[tuple[str, ...]]] = {}
        for offer in self._seen.offers:
            if offer.kind == "usb" and any(member in holders for member in offer.members):
                kept.setdefault(offer.resource, set()).add(offer.members)
        return kept

    def _offer(self, offers: Collection[Offer]) -> None:
        by_resource: dict[str, dict[str, Offer]] = {name: {} for name in self._plugins}
        for offer in offers:
            by_resource.setdefault(offer.resource, {})[offer.id] = offer
        for resource, found in by_resource.items():
            if resource not in self._permitted.own_resources:
                self._plugins.pop(resource, None)
                continue
            plugin = self._plugins.setdefault(resource, HostDevicePlugin(resource, self._root, self._nodes))
            if plugin.state != found:
                told = ", ".join(f"{each.id} {each.trouble}".strip() for each in found.values())
                log.info("devices of this node for guests", extra={"facts": {"resource": resource, "devices": told}})
            plugin.change(found)
