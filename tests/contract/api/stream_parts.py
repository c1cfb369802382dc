"""What the tests of streams share: a user's websockets, a guest's Pod and services, and what a process holds.

The guest's end of a console is a socket of ours (EchoDoor); every hop before it is real.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.support.builders import owned_by, pod_document
from tests.support.raw_websocket import RawWebSocket
from tests.support.waiting import comes_within

SUBPROTOCOL = "plain.kubevirt.io"
VMI_PATH = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/small"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Client:
    """Where a user's websockets go."""

    host: str
    context: ssl.SSLContext

    async def open(self, what: str) -> RawWebSocket:
        return await RawWebSocket.open(f"{self.host}{VMI_PATH}/{what}", self.context, SUBPROTOCOL)

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        """Run a test of streams, for four minutes at most."""

        async def limited() -> None:
            await asyncio.wait_for(test(), 240)

        asyncio.run(limited())


def launcher_pod(vmi: JsonObject) -> JsonObject:
    uid = vmi["metadata"]["uid"]
    metadata = {
        "name": "virt-launcher-small",
        "labels": {"kubevirt.io/created-by": uid},
        "ownerReferences": [owned_by("VirtualMachineInstance", "small", uid)],
    }
    return pod_document({"name": "compute", "image": "x"}, metadata=metadata, nodeName=vmi["status"]["nodeName"])


@contextlib.contextmanager
def pod_at(admin: KubeClient, vmi: JsonObject, address: str) -> Iterator[None]:
    """The guest's launcher Pod, at an address of ours."""
    pod = launcher_pod(vmi)
    admin.request("POST", PODS, pod)
    path = f"{PODS}/{pod['metadata']['name']}"
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    admin.request("PATCH", f"{path}/status", {"status": status}, None, MERGE)
    yield
    admin.request("DELETE", path, {"gracePeriodSeconds": 0})


@contextlib.contextmanager
def echo_server(address: str) -> Iterator[int]:
    """A guest's service that sends back what it gets, for one client."""
    with socket.create_server((address, 0)) as listening:
        listening.settimeout(20)

        def serve() -> None:
            with contextlib.suppress(OSError):
                client, _ = listening.accept()
                with client:
                    while data := client.recv(4096):
                        client.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
    thread.join(20)


@contextlib.contextmanager
def echo_service(address: str) -> Iterator[int]:
    """A guest's service for any number of clients, one after the other."""
    with socket.create_server((address, 0)) as listening:
        stopping = threading.Event()

        def serve() -> None:
            listening.settimeout(0.1)
            while not stopping.is_set():
                try:
                    peer, _ = listening.accept()
                except TimeoutError:
                    continue
                with peer:
                    peer.settimeout(20)
                    try:
                        while data := peer.recv(4096):
                            peer.sendall(data)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, name="echo-service", daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        stopping.set()
        thread.join(30)


@dataclass(frozen=True)
class Held:
    """What this process, in which API server (when embedded), api role and relay run, holds now."""

    descriptors: int
    threads: int
    tasks: int

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        tasks = sum(len(asyncio.all_tasks(loop)) for loop in running_loops())
        # Workers for blocking calls come one by one up to a limit, and stay.
        threads = [thread for thread in threading.enumerate() if "-call_" not in thread.name]
        return cls(len(os.listdir("/proc/self/fd")), len(threads), tasks)

    def with_client(self) -> Held:
        """With one connection of ours: its socket, the event loop it is in and what runs there, a thread that waits."""
        return Held(self.descriptors + 4, self.threads + 1, self.tasks + 2)

    def with_pooled(self) -> Held:
        """With what clients and servers keep for the next call: some connections of which both ends are here."""
        return Held(self.descriptors + 12, self.threads + 4, self.tasks + 8)

    def within(self, other: Held) -> bool:
        """Whether nothing is held beyond what was."""
        return self.descriptors <= other.descriptors and self.threads <= other.threads and self.tasks <= other.tasks


def running_loops() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loops of all threads, found where they run."""
    for frame in sys._current_frames().values():
        here: FrameType | None = frame
        while here is not None:
            if here.f_code.co_name == "run_forever":
                yield here.f_locals["self"]
                break
            here = here.f_back


def steady() -> Held | None:
    """What is held, once it is the same for a while."""
    first = Held.now()
    return None if comes_within(lambda: Held.now() != first, 0.5, 0.1) else first
