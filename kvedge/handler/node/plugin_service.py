"""The side of device plugins that all share: the list of devices, told to the kubelet whenever it changes.

Base of the plugins of shared devices and of those that go to one guest. Talks in gRPC only.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import grpc

from kvedge.rpc import deviceplugin_pb2, deviceplugin_pb2_grpc

# The end of a stream is told at once; this is for one that is missed.
_CHECK_SECONDS: Final = 1.0

State = TypeVar("State")


class PluginService(deviceplugin_pb2_grpc.DevicePluginServicer, ABC, Generic[State]):
    """One resource's service; `state` is what its list is made of."""

    def __init__(self, resource: str, socket_name: str, state: State) -> None:
        self.resource = resource
        # In the kubelet's directory.
        self.socket_name = socket_name
        self._changed = threading.Condition()
        self._state = state
        self._stopped = False
        self._streams = 0

    @abstractmethod
    def refresh(self) -> None:
        """Look at the devices, and tell the kubelet when something changed."""

    @abstractmethod
    def render(self, state: State) -> Iterable[Any]:
        """The list, as messages."""

    @abstractmethod
    def give(self, ids: Iterable[str]) -> Any:
        """What a container with these devices gets, as a message.

        Raises:
            LookupError: when it cannot have one; the text says why.
        """

    @property
    def is_watched(self) -> bool:
        """Whether somebody reads the list of devices: a kubelet that does not has none of them."""
        with self._changed:
            return self._streams > 0

    @property
    def state(self) -> State:
        """What the list is made of now."""
        with self._changed:
            return self._state

    def change(self, state: State) -> None:
        """Tell the kubelet, if this is another one."""
        with self._changed:
            if state != self._state:
                self._state = state
                self._changed.notify_all()

    def stop(self) -> None:
        """End the streams."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - the interface's name
        """No options."""
        return deviceplugin_pb2.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """All devices now, and again after each change."""
        context.add_callback(self._wake)
        with self._changed:
            self._streams += 1
        try:
            yield from self._lists(context)
        finally:
            with self._changed:
                self._streams -= 1

    def _lists(self, context: Any) -> Iterator[Any]:
        told: State | None = None
        while True:
            with self._changed:
                if not self._stopped and context.is_active() and self._state == told:
                    self._changed.wait(_CHECK_SECONDS)
                if self._stopped or not context.is_active():
                    return
                if self._state == told:
                    continue
                told = self._state
            yield deviceplugin_pb2.ListAndWatchResponse(devices=self.render(told))

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        """What each container gets."""
        try:
            given = [self.give(each.devices_ids) for each in request.container_requests]
        except LookupError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error.args[0]))
        return deviceplugin_pb2.AllocateResponse(container_responses=given)

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Nothing to prepare."""
        return deviceplugin_pb2.PreStartContainerResponse()

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        """No preference."""
        return deviceplugin_pb2.PreferredAllocationResponse()
