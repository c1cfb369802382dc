"""Device plugins of the handler, for the kubelet or the agent of one box: `devices.kubevirt.io/{kvm,tun,vhost-net}`,
and those of devices that go to one guest, which come and go with what is permitted.

Started by the handler role. Serves one unix socket per resource beside the kubelet's, and registers each there. A
kubelet that starts removes every socket in that directory, its plugins' too, and knows no plugin then: a socket that is
gone is served anew, and a plugin whose list nobody reads is registered again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from concurrent import futures
from pathlib import Path
from typing import Any, Final

import grpc
from msgspec import Struct

from kvedge.handler.node.device_plugin import DevicePlugin, SharedDevice
from kvedge.handler.node.plugin_service import PluginService
from kvedge.rpc import deviceplugin_pb2, deviceplugin_pb2_grpc
from kvedge.runtime.background import BackgroundThread

log = logging.getLogger(__name__)

VERSION: Final = "v1beta1"
KUBELET_SOCKET: Final = "kubelet.sock"
_CHECK_SECONDS: Final = 1.0
# A box that starts is waited for eagerly: its first VM waits for this.
_EAGER_SECONDS: Final = 10.0
_EAGER_CHECK_SECONDS: Final = 0.05
# The kubelet connects back before it answers, and gives that 10 s.
_REGISTER_SECONDS: Final = 15.0
# A kubelet opens its stream right after the registration; a kubelet without one by then has lost the plugin.
_STREAM_SECONDS: Final = 5.0
# KubeVirt's steps.
_BACK_OFF: Final = (1.0, 2.0, 5.0, 10.0)
# A stream that never ends, the one of the kubelet before whose end was not seen yet, Allocate, and the options.
_THREADS: Final = 4

# Tells one socket from another at the same path.
Identity = tuple[int, int, int]


class _Served(Struct):
    """One plugin and what became of it."""

    plugin: PluginService[Any]
    server: grpc.Server | None = None
    socket: Identity | None = None
    registered_with: Identity | None = None
    registered_at: float = 0.0


def registration_due(
    kubelet: Identity | None, registered_with: Identity | None, seconds_since: float, *, is_watched: bool
) -> bool:
    """Whether a plugin has to be registered now, with the kubelet whose socket is there.

    Not while this kubelet reads the list: the end of a stream makes it drop the plugin whose stream is the newest.
    """
    if kubelet is None:
        return False
    return kubelet != registered_with or (not is_watched and seconds_since >= _STREAM_SECONDS)


class DevicePlugins:
    """All plugins of this node: a service of the handler role."""

    name = "device plugins"

    def __init__(
        self,
        directory: Path,
        devices: list[SharedDevice],
        passed: Callable[[], Collection[PluginService[Any]]] = tuple,
    ) -> None:
        """`passed` looks at the devices that go to one guest each, and has their plugins."""
        self._directory = directory
        self._shared = [DevicePlugin(device) for device in devices]
        self._served = [_Served(plugin) for plugin in self._shared]
        self._passed = passed
        self._stop = threading.Event()
        self._thread = BackgroundThread("device-plugins", self._keep_registered)
        self._refusals = 0

    def start(self) -> None:
        """Serve all plugins and begin to register them."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for served in self._served:
            self._serve(served)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; the kubelet then counts the devices as gone, running Pods keep theirs."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_REGISTER_SECONDS)
        for served in self._served:
            served.plugin.stop()
        for served in self._served:
            self._withdraw(served)
            self._socket_path(served).unlink(missing_ok=True)

    def offer(self, count: int) -> None:
        """Let so many VMs have each device at most."""
        for plugin in self._shared:
            plugin.offer(count)

    def failure(self) -> str | None:
        """Registration is retried for ever, unless a look hangs."""
        return self._thread.failure()

    def _socket_path(self, served: _Served) -> Path:
        return self._directory / served.plugin.socket_name

    def _serve(self, served: _Served) -> None:
        # Before the path is used again: a server that ends removes what is at its path.
        self._withdraw(served)
        name = served.plugin.socket_name
        server = grpc.server(futures.ThreadPoolExecutor(_THREADS, thread_name_prefix=name))
        deviceplugin_pb2_grpc.add_DevicePluginServicer_to_server(served.plugin, server)  # type: ignore[no-untyped-call]
        self._socket_path(served).unlink(missing_ok=True)
        with _inside(self._directory) as reachable:
            server.add_insecure_port(f"unix:{reachable}/{name}")
            server.start()
        served.server, served.socket = server, _identity(self._socket_path(served))

    def _withdraw(self, served: _Served) -> None:
        if served.server is not None:
            served.server.stop(grace=None).wait(timeout=2)
        served.server = served.socket = served.registered_with = None

    def _keep_registered(self) -> None:
        begun = time.monotonic()
        while True:
            self._thread.heartbeat.beat()
            wait = _CHECK_SECONDS
            if time.monotonic() - begun < _EAGER_SECONDS and any(item.registered_with is None for item in self._served):
                wait = _EAGER_CHECK_SECONDS
            try:
                self._look()
                self._refusals = 0
            except (grpc.RpcError, OSError, RuntimeError) as error:
                # RuntimeError: gRPC could not listen at the path.
                wait = _BACK_OFF[min(self._refusals, len(_BACK_OFF) - 1)]
                self._refusals += 1
                log.warning("device plugins are not registered", extra={"facts": {"error": str(error), "again": wait}})
            if self._stop.wait(wait):
                return

    def _follow_passed(self) -> None:
        """Serve the plugins that are new, and end those that are no more."""
        wanted = [*self._shared, *self._passed()]
        for served in [served for served in self._served if served.plugin not in wanted]:
            self._served.remove(served)
            served.plugin.stop()
            self._withdraw(served)
            self._socket_path(served).unlink(missing_ok=True)
        known = [served.plugin for served in self._served]
        self._served += [_Served(plugin) for plugin in wanted if plugin not in known]

    def _look(self) -> None:
        self._follow_passed()
        for served in self._served:
            served.plugin.refresh()
        # Seen before the plugins' own: a kubelet removes sockets first and makes its own then.
        kubelet = _identity(self._directory / KUBELET_SOCKET)
        for served in self._served:
            if served.socket is None or _identity(self._socket_path(served)) != served.socket:
                log.info("plugin served anew", extra={"facts": {"resource": served.plugin.resource}})
                # A kubelet that starts on a node whose directory was removed makes it, or we do.
                self._directory.mkdir(parents=True, exist_ok=True)
                self._serve(served)
            since = time.monotonic() - served.registered_at
            if registration_due(kubelet, served.registered_with, since, is_watched=served.plugin.is_watched):
                self._register(served)
                served.registered_with, served.registered_at = kubelet, time.monotonic()

    def _register(self, served: _Served) -> None:
        with (
            _inside(self._directory) as reachable,
            grpc.insecure_channel(f"unix:{reachable}/{KUBELET_SOCKET}") as channel,
        ):
            stub: Any = deviceplugin_pb2_grpc.RegistrationStub(channel)  # type: ignore[no-untyped-call]
            plugin = served.plugin
            request = deviceplugin_pb2.RegisterRequest(
                version=VERSION, endpoint=plugin.socket_name, resource_name=plugin.resource
            )
            stub.Register(request, timeout=_REGISTER_SECONDS)


def _identity(path: Path) -> Identity | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


class _inside:  # noqa: N801 - reads as a function where it is used
    """A short name for a directory: unix socket paths end at 108 bytes, data directories do not."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
