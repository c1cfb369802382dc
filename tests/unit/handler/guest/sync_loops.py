"""A sync loop of one node, whose collaborators a test gives; time stands still, or is the test's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kvedge.handler.guest.sync_loop import SyncLoop
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.kube.patches import MergePatch
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.clocks import FakeClock

NODE = "edge-1"
Patch = Callable[[object, str, str, MergePatch], VirtualMachineInstance]


def a_sync_loop(
    *,
    vmis: object,
    connections: object,
    network: object,
    patch: Patch,
    said: list[tuple[str, str]],
    volumes: object = HotplugVolumes(Path("/nowhere")),
    clock: FakeClock | None = None,
    mobility: object = None,
    node: str = NODE,
) -> Any:
    """A loop that writes with `patch`, and adds each event's reason and text to `said`."""
    return SyncLoop(
        volumes=volumes,  # type: ignore[arg-type]
        client=SimpleNamespace(patch=patch),  # type: ignore[arg-type]
        vmis=vmis,  # type: ignore[arg-type]
        connections=connections,  # type: ignore[arg-type]
        network=network,  # type: ignore[arg-type]
        prepare_pod=lambda *_: None,
        events=SimpleNamespace(record=lambda _vmi, _type, reason, text: said.append((reason, text))),  # type: ignore[arg-type]
        options=pb.NodeOptions,
        kubelet=Path("/nowhere"),
        node=node,
        clock=clock or FakeClock(),
        mobility=mobility,  # type: ignore[arg-type]
    )
