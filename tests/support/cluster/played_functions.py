"""A device plugin with functions of a NIC that is not there: what SR-IOV's plugin tells kubelet, container and Multus.

`PlayedFunctions` runs it on a node of a test cluster, as a program of its own (this file). The kubelet, its scheduling
and Multus are the real ones. No function can go to a guest: this machine's cards have none.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc

from kvedge.resources.types.sriov_networks import devices_variables
from kvedge.rpc import deviceplugin_pb2 as pb
from kvedge.rpc import deviceplugin_pb2_grpc as rpc
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.cluster.machine_node import MachineNode

PLUGINS: Final = "/var/lib/kubelet/device-plugins"
# Where Multus looks for what a device plugin knows of a device: <resource>-<device>-device.json.
_INFOS: Final = "/var/run/k8s.cni.cncf.io/devinfo/dp"
_CHECKOUT: Final = Path(__file__).resolve().parents[3]


@contextmanager
def played_functions(node: MachineNode, resource: str, *addresses: str) -> Iterator[None]:
    """Functions at these PCI addresses, which the kubelet of a node offers as a resource."""
    infos = {f"{resource.replace('/', '-')}-{address}-device.json": device_info(address) for address in addresses}
    for name, info in infos.items():
        node.run("sh", "-c", f"mkdir -p {_INFOS} && printf %s '{json.dumps(info)}' >{_INFOS}/{name}")
    command = (sys.executable, "-m", __name__, resource, *addresses)
    node.spawn("functions", *command, environment={"PYTHONPATH": str(_CHECKOUT)})
    try:
        yield
    finally:
        node.end("functions")
        node.run("sh", "-c", f"cd {_INFOS} && rm -f {' '.join(infos)}")


def device_info(address: str) -> Mapping[str, object]:
    """As the network plumbing's standard of device information has it."""
    return {"type": "pci", "version": "1.1.0", "pci": {"pci-address": address}}


class _Plugin(rpc.DevicePluginServicer):
    def __init__(self, resource: str, addresses: list[str]) -> None:
        self._variable, _ = devices_variables(resource)
        self._addresses = addresses

    def GetDevicePluginOptions(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions()

    def ListAndWatch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        yield pb.ListAndWatchResponse(devices=[pb.Device(ID=each, health="Healthy") for each in self._addresses])
        over = threading.Event()
        context.add_callback(over.set)
        over.wait()

    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        answer = pb.AllocateResponse()
        for asked in request.container_requests:
            answer.container_responses.add(envs={self._variable: ",".join(asked.devices_ids)})
        return answer


def main(resource: str, *addresses: str) -> None:
    """Serve until it is ended."""
    endpoint = f"{resource.replace('/', '-')}.sock"
    Path(PLUGINS, endpoint).unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(4))
    rpc.add_DevicePluginServicer_to_server(_Plugin(resource, list(addresses)), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix://{PLUGINS}/{endpoint}")
    server.start()
    wait_until(lambda: os.path.exists(f"{PLUGINS}/kubelet.sock"), "the kubelet takes plugins", 60)
    with grpc.insecure_channel(f"unix://{PLUGINS}/kubelet.sock") as channel:
        asked = pb.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
        rpc.RegistrationStub(channel).Register(asked, timeout=20)  # type: ignore[no-untyped-call]
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
