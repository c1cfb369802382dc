"""Where things are on a node of a cluster: what the operator says, else the running kubelet, else the distribution.

Called by installing. Pure: whether a directory is there is asked through a function.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.appliance.host.distributions import DEFAULT_KUBELET, Distribution, socket_loader
from kvedge.appliance.host.kubelet_facts import KubeletFacts
from kvedge.runtime.settings import Settings

_SOCKET_PREFIX: Final = "unix://"


class NodePlaces(Struct, frozen=True):
    """What installing works with; None and an empty command where there is no such thing."""

    node: str
    kubelet: Path
    # Archives in here are loaded when the node starts.
    images: Path | None
    # Manifests in here are applied by the distribution.
    manifests: Path | None
    # The command that loads an archive, named after it.
    load: tuple[str, ...]
    # By which the node speaks for itself; it may not be there.
    kubeconfig: Path | None = None


def node_places(
    settings: Settings,
    distribution: Distribution | None,
    kubelet: KubeletFacts | None,
    is_directory: Callable[[Path], bool],
) -> NodePlaces:
    """Bring the three together."""
    told = kubelet or KubeletFacts()
    by_default = distribution.kubelet if distribution else DEFAULT_KUBELET
    # The last source counts: a setting goes before a running kubelet, and that before the usual place.
    directory = settings.kubelet_dir or told.root or str(by_default)
    return NodePlaces(
        node=(settings.node_name or told.node_name or settings.effective_node_name).lower(),
        kubelet=Path(directory),
        images=_images(settings, distribution, is_directory),
        manifests=_manifests(settings, distribution, is_directory),
        load=_load(settings, distribution, told),
        kubeconfig=_kubeconfig(settings, distribution, told),
    )


def _kubeconfig(settings: Settings, distribution: Distribution | None, told: KubeletFacts) -> Path | None:
    named = settings.node_kubeconfig or told.kubeconfig
    if named:
        return Path(named)
    return distribution.node_kubeconfig if distribution else None


def _images(settings: Settings, distribution: Distribution | None, is_directory: Callable[[Path], bool]) -> Path | None:
    if settings.images_dir:
        return Path(settings.images_dir)
    if distribution is None or distribution.images is None:
        return None
    # The distribution makes it when it is needed; its parent directory is there on every node.
    return distribution.images if is_directory(distribution.images.parent) else None


def _manifests(
    settings: Settings, distribution: Distribution | None, is_directory: Callable[[Path], bool]
) -> Path | None:
    if settings.manifests_dir:
        return Path(settings.manifests_dir)
    if distribution is None or distribution.manifests is None:
        return None
    return distribution.manifests if is_directory(distribution.manifests) else None


def _load(settings: Settings, distribution: Distribution | None, told: KubeletFacts) -> tuple[str, ...]:
    if settings.containerd_socket:
        return socket_loader(settings.containerd_socket)
    if distribution is not None and distribution.load[0] != "ctr":
        # A tool of its own knows its containerd.
        return distribution.load
    socket = told.endpoint.removeprefix(_SOCKET_PREFIX)
    if "containerd" in socket:
        return socket_loader(socket)
    # Another runtime, such as CRI-O, has no such command.
    return () if socket or distribution is None else distribution.load
