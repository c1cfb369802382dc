"""The device plugin of qemu-pr-helper's socket: `devices.kubevirt.io/pr-helper`, and what keeps the helper running.

Made by the handler role, served by `device_plugins`, which looks at it every second. Offered where the KubeVirt object
lets guests reserve LUNs and this node has the program; the helper goes on while guests of this node use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from kvedge.handler.node.device_plugin import DEVICES_PER_NODE
from kvedge.handler.node.plugin_service import PluginService
from kvedge.handler.node.reservation_helper import REMEDY, ReservationHelper
from kvedge.resources.names import DEVICE_PR_HELPER, PR_HELPER_DIRECTORY
from kvedge.rpc import deviceplugin_pb2

log = logging.getLogger(__name__)

_SOCKET: Final = "kvedge-pr-helper.sock"


class ReservationPlugin(PluginService[bool]):
    """Its state is whether a helper runs."""

    def __init__(self, helper: ReservationHelper) -> None:
        super().__init__(DEVICE_PR_HELPER, _SOCKET, helper.runs)
        self._helper = helper

    def refresh(self) -> None:
        """Look at the helper, and tell the kubelet when it has come or gone."""
        self.change(self._helper.runs)

    def render(self, state: bool) -> Iterable[Any]:
        """As many as there may be Pods."""
        health = "Healthy" if state else "Unhealthy"
        return [deviceplugin_pb2.Device(ID=f"pr-helper{number}", health=health) for number in range(DEVICES_PER_NODE)]

    def give(self, ids: Iterable[str]) -> Any:
        """The socket's directory, as a later helper has another socket in it; nobody in the Pod can write there."""
        mount = deviceplugin_pb2.Mount(
            container_path=PR_HELPER_DIRECTORY, host_path=str(self._helper.directory), read_only=True
        )
        return deviceplugin_pb2.ContainerAllocateResponse(mounts=[mount])


class Reservations:
    """The plugin while it is wanted, and the helper while somebody needs it."""

    def __init__(self, helper: ReservationHelper, is_used: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """`is_used` says whether a guest of this node has such a LUN, `tell` hears what an operator has to know."""
        self._helper = helper
        self._is_used = is_used
        self._tell = tell
        self._is_allowed = False
        self._told = ""
        self._plugin: ReservationPlugin | None = None

    def allow(self, allowed: bool) -> None:
        """What the KubeVirt object says now."""
        self._is_allowed = allowed

    def plugins(self) -> list[ReservationPlugin]:
        """See to the helper; the plugin to be served, if there is one."""
        if not self._is_allowed and not self._is_used():
            self._helper.end()
            self._told = ""
        else:
            self._keep()
        if not self._is_allowed or not self._helper.is_there:
            self._plugin = None
        elif self._plugin is None:
            self._plugin = ReservationPlugin(self._helper)
        return [] if self._plugin is None else [self._plugin]

    def stop(self) -> None:
        """The helper stays for guests that stay."""
        if not self._is_used():
            self._helper.end()

    def _keep(self) -> None:
        if not self._helper.is_there:
            self._say(f"guests cannot reserve LUNs here, as this node has no qemu-pr-helper: {REMEDY}")
            return
        try:
            self._helper.keep()
        except OSError as error:
            self._say(f"qemu-pr-helper cannot be started: {error.strerror or error}")
        else:
            self._told = ""

    def _say(self, text: str) -> None:
        if text != self._told:
            self._told = text
            log.warning("reservations of LUNs", extra={"facts": {"trouble": text}})
            self._tell(text)
