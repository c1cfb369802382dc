"""What `kvedge install` needs on a node of a cluster: the cluster found, rights given, kubeconfigs made; and back.

Called by install_verbs. Asks the cluster with the administrator's kubeconfig that its distribution has written, or on
an agent with the handler's own; files are handed back, for the installation to write.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from kvedge.appliance.cluster_node_plan import NodePlace, node_address, node_settings, serves_still
from kvedge.appliance.distributions import DEFAULT_KUBELET, DISTRIBUTIONS, Distribution, of_node, of_server
from kvedge.appliance.install_plan import OwnFile
from kvedge.appliance.layout import Layout
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.user_credentials import certified, cluster_entry, secret_text
from kvedge.cli.user_manifest import role_user
from kvedge.runtime.settings import NODE_ROLES, LoadedSettings, Settings

if TYPE_CHECKING:
    from kvedge.kube.kube_client import KubeClient

ClusterRole = Literal["server", "agent"]
_DAYS: Final = 365
_SIGN_SECONDS: Final = 30.0
_ARCHIVE: Final = "kvedge-launcher.tar"


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """This host as a node: what is written for it, and what the operator should know.

    By `kubeconfig`, its handler's, its health is seen.
    """

    name: str
    kubeconfig: Path
    own: Sequence[OwnFile]
    archive: Path
    notes: Sequence[str]
    distribution: Distribution | None


def prepare_node(role: ClusterRole, operators: LoadedSettings, layout: Layout, *, dry_run: bool) -> ClusterNode:
    """Look at the cluster, and bring into it what the roles need there; a dry run changes nothing.

    Args:
        role: what this node is to be.
        operators: the settings without those that an earlier installation has written.
        layout: where files go.
        dry_run: only say what would be done.

    Raises:
        Refused: when there is no cluster, it does not know this node, or a kubeconfig is missing.
        KubeError: when the API server refuses.
    """
    found = _Found(operators.settings, layout)
    joined = _join_as_server(found, dry_run=dry_run) if role == "server" else _join_as_agent(found)
    notes = list(joined.notes)
    if not found.kubelet.is_dir():
        notes.append(f"{found.kubelet} does not exist: unless this node's kubelet makes it, set kubelet-dir")
    decided = {key for key, origin in operators.origins.items() if _is_file(origin)} - {"kubeconfig"}
    _need_address(found.node, joined.address, role, decided)
    place = NodePlace(found.roles, found.kubelet, joined.address)
    settings = OwnFile(layout.node_settings, node_settings(role, place, decided))
    image = _image(found.distribution, layout)
    own = [*joined.own, settings, image]
    return ClusterNode(found.node, found.role_kubeconfig("handler"), own, image.path, notes, found.distribution)


def load_launcher_image(node: ClusterNode) -> None:
    """Bring the launcher's image into the node's containerd now; where that fails, say what is to be done."""
    from kvedge.appliance.image_loader import NotLoadedError, load_image

    if node.distribution is None:
        click.echo(f"load {node.archive} into this node's container runtime: launcher Pods run from it")
        return
    try:
        load_image(node.distribution.load, node.archive)
    except NotLoadedError as error:
        click.echo(
            f"the launcher's image was not loaded: {error}; run that yourself, or restart {node.distribution.name}"
        )


@dataclass(frozen=True, slots=True)
class _Joined:
    """What the cluster said and got: this node's address there, which may be empty, and the roles' kubeconfigs."""

    address: str
    own: Sequence[OwnFile] = ()
    notes: Sequence[str] = ()


class _Found:
    """What the settings and this host tell of the cluster."""

    def __init__(self, settings: Settings, layout: Layout) -> None:
        self.settings = settings
        self.node = settings.effective_node_name
        named = Path(settings.kubeconfig) if settings.kubeconfig else None
        # A directory holds the roles' own, made by whoever named it.
        self.roles = named if named is not None and named.is_dir() else layout.roles
        self.is_ours = self.roles == layout.roles
        self.distribution = of_node(Path.exists)
        self.admin = named if named is not None and not named.is_dir() else _of_distribution()
        kubelet = self.distribution.kubelet if self.distribution else DEFAULT_KUBELET
        self.kubelet = Path(settings.kubelet_dir) if settings.kubelet_dir else kubelet

    def role_kubeconfig(self, role: str) -> Path:
        """Where a role's kubeconfig is, or is to be."""
        return self.roles / role


def _of_distribution() -> Path | None:
    found = of_server(Path.exists)
    return found.kubeconfig if found else None


def _is_file(origin: str) -> bool:
    return origin.startswith("/")


def _join_as_server(found: _Found, *, dry_run: bool) -> _Joined:
    if found.admin is None:
        places = ", ".join(f"{item.name}: {item.kubeconfig}" for item in DISTRIBUTIONS)
        raise Refused(
            f"no cluster's administrator is on this host (looked for {places}): install k3s first, name its kubeconfig"
            " in the setting kubeconfig, or use --role agent for a node that is no server",
            Exit.HOST,
        )
    client = admin_client(found.admin)
    address = _own_address(client, found.node, found.admin)
    if dry_run:
        names = ",".join(NODE_ROLES)
        return _Joined(
            address,
            notes=[f"apply k3s/rbac to the cluster of {found.admin}", f"make {found.roles}/{{{names}}}, where needed"],
        )
    from kvedge.appliance.cluster_objects import apply_rights

    click.echo(f"apply k3s/rbac, {apply_rights(client)} documents, to the cluster of {found.admin}")
    own = [_role_file(client, found, role, found.admin) for role in NODE_ROLES] if found.is_ours else []
    return _Joined(address, own)


def _role_file(client: KubeClient, found: _Found, role: str, admin: Path) -> OwnFile:
    """A role's kubeconfig: the one that is there as long as it serves, else a new one."""
    made = role_user(role, found.node if role == "handler" else "", _DAYS)
    entry = cluster_entry(admin)
    path = found.role_kubeconfig(role)
    text = path.read_bytes() if path.is_file() else None
    if text is None or not serves_still(text, made.name, entry, datetime.now(UTC)):
        click.echo(f"ask the cluster for a certificate of {made.name}")
        text = secret_text(certified(client, made, entry, _SIGN_SECONDS))
    return OwnFile(path, text, 0o600)


def _join_as_agent(found: _Found) -> _Joined:
    # A file that the operator names is the handler's, and copied; a directory has it under its name.
    path = handler_kubeconfig(found.settings) if found.settings.kubeconfig else found.role_kubeconfig("handler")
    if not path.is_file():
        raise Refused(
            f"{path} does not exist: this node's handler needs a kubeconfig. On a server of the cluster, run"
            f" `kvedge user role handler --node {found.node} --server https://SERVER:6443 --output handler`, with the"
            f" server's address as this node reaches it; copy that file to {path} here, and install again",
            Exit.USAGE,
        )
    address = _own_address(admin_client(path), found.node, path)
    if not found.is_ours:
        return _Joined(address)
    # Copied by hand, it may be open to others.
    path.chmod(0o600)
    own = [OwnFile(found.role_kubeconfig("handler"), path.read_bytes(), 0o600)]
    # Of a server that this node was.
    return _Joined(address, [*own, *(OwnFile(found.role_kubeconfig(role), None) for role in ("api", "controller"))])


def handler_kubeconfig(settings: Settings) -> Path:
    """The kubeconfig of this node's handler, whether it is there or not."""
    path = Path(settings.kubeconfig) if settings.kubeconfig else Layout().roles
    return path / "handler" if path.is_dir() else path


def admin_client(kubeconfig: Path) -> KubeClient:
    """A client; nothing is asked yet.

    Raises:
        KubeconfigError: when the file cannot be used.
    """
    from kvedge.kube.kube_client import KubeClient

    return KubeClient.from_kubeconfig(kubeconfig, "kvedge-install")


def _own_address(client: KubeClient, node: str, kubeconfig: Path) -> str:
    """The address of this node in the cluster, which may be empty."""
    from kvedge.kube.errors import NotFound, Unavailable
    from kvedge.resources.core import Node

    try:
        return node_address(client.get(Node, "", node))
    except NotFound as error:
        raise Refused(
            f"the cluster of {kubeconfig} has no node {node}: start its kubelet (k3s) first, or set node-name",
            Exit.NOT_FOUND,
        ) from error
    except Unavailable as error:
        raise Refused(f"the cluster of {kubeconfig} does not answer: {error}; does {client.host} run?") from error


def _need_address(node: str, address: str, role: ClusterRole, decided: Set[str]) -> None:
    needed = {"relay-address"} if role == "agent" else {"api-address", "relay-address"}
    if not address and (missing := sorted(needed - decided)):
        raise Refused(f"node {node} tells no address of its own: set {' and '.join(missing)}", Exit.HOST)


def _image(distribution: Distribution | None, layout: Layout) -> OwnFile:
    """The launcher's empty image, where the distribution loads it from: no registry is asked for it."""
    from kvedge.storage.launcher_image import launcher_image

    has_place = distribution is not None and distribution.images is not None and distribution.images.parent.is_dir()
    place = distribution.images if has_place and distribution is not None else None
    return OwnFile((place or layout.data_dir) / _ARCHIVE, launcher_image(platform.machine()))


def archives(layout: Layout) -> list[Path]:
    """Launcher images that installations have written."""
    found = [layout.data_dir, *(item.images for item in DISTRIBUTIONS if item.images is not None)]
    return [path / _ARCHIVE for path in found if (path / _ARCHIVE).is_file()]


def leave_cluster(settings: Settings, layout: Layout, *, purge: bool) -> None:
    """Say what stays in the cluster, or remove it; when it does not answer, what is left there is told."""
    found = _Found(settings, layout)
    stays = "webhooks, APIServices, policy and rights of kvedge"
    if found.admin is None:
        return
    if not purge:
        click.echo(
            f"kept in the cluster: {stays}, and all VMs; until kvedge runs on a server again, VMs cannot be written"
            " (--purge takes all but VMs out)"
        )
        return
    from kvedge.appliance.cluster_objects import other_nodes, remove_registration
    from kvedge.kube.connection_settings import KubeconfigError
    from kvedge.kube.errors import KubeError

    try:
        client = admin_client(found.admin)
        if others := other_nodes(client, found.node):
            click.echo(f"kept in the cluster: {stays}, as kvedge serves on {', '.join(others)}")
            return
        for path in remove_registration(client):
            click.echo(f"remove from the cluster {path}")
    except (KubeError, KubeconfigError) as error:
        click.echo(f"left in the cluster: {stays}, as it does not answer: {error}", err=True)
        return
    click.echo("kept in the cluster: the kinds and their VMs, and the namespace kvedge-system")
