"""What `kvedge install` needs on a node of a cluster: the cluster found, rights given, kubeconfigs made; and back.

Called by install_verbs. Asks the cluster with the administrator's kubeconfig that its distribution has written, or on
an agent with the handler's; files are handed back, for the installation to write. A handler speaks as its node, with
the kubelet's own kubeconfig: what lets a node join the cluster is all that its handler needs.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from kvedge import __version__
from kvedge.appliance.cluster.cluster_node_plan import (
    NodePlace,
    handler_kubeconfig,
    node_address,
    node_settings,
    serves_still,
)
from kvedge.appliance.cluster.cluster_rules import too_old, wrong_order
from kvedge.appliance.cluster.errors import NoKubeconfigError, SilentClusterError, UnfitError, UnknownNodeError
from kvedge.appliance.cluster.image_loader import ARCHIVE, NotLoadedError, load_image, remove_image
from kvedge.appliance.cluster.node_kubeconfigs import administrator_kubeconfig, roles_directory
from kvedge.appliance.host.distributions import DISTRIBUTIONS, of_node
from kvedge.appliance.host.kubelet_facts import find_running_kubelet
from kvedge.appliance.host.layout import Layout
from kvedge.appliance.host.node_places import NodePlaces, node_places
from kvedge.appliance.host.own_file import OwnFile
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.users.user_credentials import cluster_entry, request_kubeconfig
from kvedge.client.users.user_manifest import role_user
from kvedge.kube.kubeconfigs.kubeconfig_writer import kubeconfig_text
from kvedge.runtime.settings import NODE_ROLES, LoadedSettings, Settings

if TYPE_CHECKING:
    from kvedge.kube.kube_client import KubeClient

ClusterRole = Literal["server", "agent"]
_DAYS: Final = 365
_SIGN_SECONDS: Final = 30.0
_MANIFEST: Final = "kvedge.yaml"
_MANIFEST_HEAD: Final = (
    "Written by `kvedge install --role server` and replaced by it: what the roles of kvedge need of the cluster.",
    "The api role writes the rest as long as it runs, and mends it: webhooks and APIServices, which hold a certificate",
    "that is made at run time, and the kinds (CRDs). With a kind all of its objects go, and k3s deletes what a later",
    "text of this file does not name any more: VMs must never hang on that.",
)


class ClusterNode(Struct, frozen=True):
    """This host as a node: what is written for it, and what the operator should know.

    By `kubeconfig`, its handler's, its health is seen. `load` is the command that brings the image in at once.
    """

    name: str
    kubeconfig: Path
    own: Sequence[OwnFile]
    archive: Path
    notes: Sequence[str]
    load: tuple[str, ...]


def prepare_node(
    role: ClusterRole,
    operators: LoadedSettings,
    layout: Layout,
    progress: Callable[[str], None],
    *,
    dry_run: bool,
    force: bool = False,
) -> ClusterNode:
    """Look at the cluster, and bring into it what the roles need there; a dry run changes nothing.

    Args:
        role: what this node is to be.
        operators: the settings without those that an earlier installation has written.
        layout: where files go.
        progress: gets a line for each thing that is done in the cluster.
        dry_run: only say what would be done.
        force: also when the cluster's servers are of a version that this one should not follow.

    Raises:
        ClusterError: when there is no cluster, it is too old, it does not know this node, or a kubeconfig is missing.
        ClientError: when a certificate cannot be had.
        KubeError: when the API server refuses.
    """
    found = _Found(operators.settings, layout, progress, force=force)
    joined = _join_as_server(found, dry_run=dry_run) if role == "server" else _join_as_agent(found)
    notes = list(joined.notes)
    if not found.places.kubelet.is_dir():
        notes.append(f"{found.places.kubelet} does not exist: unless this node's kubelet makes it, set kubelet-dir")
    decided = {key for key, origin in operators.origins.items() if _is_file(origin)} - {"kubeconfig"}
    _need_address(found.node, joined.address, role, decided)
    name = found.node if found.node != found.settings.effective_node_name else ""
    place = NodePlace(found.roles, found.places.kubelet, joined.address, name, joined.node_kubeconfig)
    settings = OwnFile(layout.node_settings, node_settings(role, place, decided))
    image = _image(found.places, layout)
    own = [*joined.own, settings, image]
    kubeconfig = joined.node_kubeconfig or found.role_kubeconfig("handler")
    return ClusterNode(found.node, kubeconfig, own, image.path, notes, found.places.load)


def load_launcher_image(node: ClusterNode, progress: Callable[[str], None]) -> None:
    """Bring the launcher's image into the node's containerd now; where that fails, say what is to be done."""
    if not node.load:
        progress(f"load {node.archive} into this node's container runtime: launcher Pods run from it")
        return
    try:
        load_image(node.load, node.archive)
    except NotLoadedError as error:
        progress(f"the launcher's image was not loaded: {error}; run that yourself, or restart the node's Kubernetes")


def unload_launcher_image(places: NodePlaces, warn: Callable[[str], None]) -> None:
    """Take the image out of the node's containerd, where it is pinned; where that fails, say so."""
    if not places.load:
        return
    try:
        remove_image(places.load)
    except NotLoadedError as error:
        warn(f"left in this node's container runtime: the launcher's image of a few KB: {error}")


class _Joined(Struct, frozen=True):
    """What the cluster said and got: this node's address there, which may be empty, and the roles' kubeconfigs.

    `node_kubeconfig` is the one that its handler speaks by, where it has none of its own.
    """

    address: str
    own: Sequence[OwnFile] = ()
    notes: Sequence[str] = ()
    node_kubeconfig: Path | None = None


class _Found:
    """What the settings and this host tell of the cluster."""

    def __init__(
        self, settings: Settings, layout: Layout, progress: Callable[[str], None], *, force: bool = False
    ) -> None:
        self.settings = settings
        self.progress = progress
        self.force = force
        # A directory that the operator names holds the roles' own kubeconfigs, made by the operator.
        self.roles = roles_directory(settings, layout)
        self.is_ours = self.roles == layout.roles
        self.admin = administrator_kubeconfig(settings)
        self.kubelet = find_running_kubelet()
        self.places = node_places(settings, of_node(Path.exists), self.kubelet, Path.is_dir)
        self.node = self.places.node

    def role_kubeconfig(self, role: str) -> Path:
        """Where a role's kubeconfig is, or is to be."""
        return self.roles / role


def _is_file(origin: str) -> bool:
    return origin.startswith("/")


def _join_as_server(found: _Found, *, dry_run: bool) -> _Joined:
    if found.admin is None:
        places = ", ".join(f"{item.name}: {item.kubeconfig}" for item in DISTRIBUTIONS)
        if found.kubelet is not None and found.kubelet.kubeconfig:
            places += f"; {found.kubelet.kubeconfig} is this node's kubelet's own"
        raise UnfitError(
            f"no cluster's administrator is on this host (looked for {places}): install k3s first, name its kubeconfig"
            " in the setting kubeconfig, or use --role agent for a node that is no server"
        )
    client = admin_client(found.admin)
    address = _own_address(client, found, found.admin, "server")
    manifest = [OwnFile(found.places.manifests / _MANIFEST, _manifest())] if found.places.manifests else []
    what = "k3s/rbac and k3s/priority-classes.yaml"
    node_kubeconfig, problem = _as_node(found)
    wanted = [role for role in NODE_ROLES if role != "handler" or node_kubeconfig is None]
    if dry_run:
        told = [f"apply {what} to the cluster of {found.admin}"]
        told.append(f"make {found.roles}/{{{','.join(wanted)}}}, where needed")
        return _Joined(address, manifest, told, node_kubeconfig)
    from kvedge.appliance.cluster.cluster_objects import apply_documents

    found.progress(f"apply {what}, {apply_documents(client)} documents, to the cluster of {found.admin}")
    if not found.is_ours:
        return _Joined(address, manifest, node_kubeconfig=node_kubeconfig)
    if problem:
        found.progress(f"{problem}: the handler gets a certificate of its own")
    own = [_role_file(client, found, role, found.admin) for role in wanted]
    own += [OwnFile(found.role_kubeconfig(role), None) for role in NODE_ROLES if role not in wanted]
    return _Joined(address, [*manifest, *own], node_kubeconfig=node_kubeconfig)


def _as_node(found: _Found) -> tuple[Path | None, str]:
    """The kubelet's kubeconfig when this node's handler can speak by it, else what stands against that."""
    from kvedge.appliance.cluster.cluster_objects import own_name
    from kvedge.kube.errors import KubeError
    from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError

    path = found.places.kubeconfig
    if path is None or not path.is_file():
        return None, f"no kubelet's kubeconfig is on this host{f' ({path} is not there)' if path else ''}"
    if not found.is_ours and found.role_kubeconfig("handler").is_file():
        # The operator has decided by making that directory.
        return None, ""
    try:
        name = own_name(admin_client(path))
    except (KubeError, KubeconfigError) as error:
        return None, f"{path} cannot be used: {error}"
    return (path, "") if name == found.node else (None, f"{path} does not speak as node {found.node}")


def _manifest() -> bytes:
    from kvedge.resources.manifest_text import manifest_text
    from kvedge.resources.manifests.cluster_manifest import manifest_documents

    return manifest_text(manifest_documents(), "\n# ".join(_MANIFEST_HEAD)).encode()


def _role_file(client: KubeClient, found: _Found, role: str, admin: Path) -> OwnFile:
    """A role's kubeconfig: the one that is there as long as it serves, else a new one."""
    made = role_user(role, found.node if role == "handler" else "", _DAYS)
    entry = cluster_entry(load_kubeconfigs((admin,), None))
    path = found.role_kubeconfig(role)
    text = path.read_bytes() if path.is_file() else None
    if text is None or not serves_still(text, made.name, entry, datetime.now(UTC)):
        found.progress(f"ask the cluster for a certificate of {made.name}")
        text = kubeconfig_text(request_kubeconfig(client, made, entry, _SIGN_SECONDS))
    return OwnFile(path, text, 0o600)


def _join_as_agent(found: _Found) -> _Joined:
    # A file that the operator names is the handler's, and copied; a directory has it under its name.
    path = handler_kubeconfig(found.settings, found.roles)
    node_kubeconfig = None
    if not path.is_file() or path == found.places.kubeconfig:
        node_kubeconfig, problem = _as_node(found)
        if node_kubeconfig is None:
            own = found.role_kubeconfig("handler")
            raise NoKubeconfigError(
                f"this node's handler has nothing to speak by: {problem}, and {path} does not exist. Start this node's"
                " Kubernetes first, or name its kubelet's kubeconfig in the setting node-kubeconfig; or, on a server,"
                f" run `kvedge user role handler --node {found.node} --server https://SERVER:6443 --output handler`,"
                f" with the server's address as this node reaches it, copy that file to {own} here, and install again"
            )
        path = node_kubeconfig
    client = admin_client(path)
    _need_rights(client, path)
    address = _own_address(client, found, path, "agent")
    # Of a server that this node was: it would apply them again when its Kubernetes starts.
    gone = [OwnFile(found.places.manifests / _MANIFEST, None)] if found.places.manifests else []
    if not found.is_ours:
        return _Joined(address, gone, node_kubeconfig=node_kubeconfig)
    # Of a server that this node was.
    gone += [OwnFile(found.role_kubeconfig(role), None) for role in ("api", "controller")]
    if node_kubeconfig is not None:
        return _Joined(address, gone, node_kubeconfig=node_kubeconfig)
    # Copied by hand, it may be open to others.
    path.chmod(0o600)
    return _Joined(address, [*gone, OwnFile(found.role_kubeconfig("handler"), path.read_bytes(), 0o600)])


def _need_rights(client: KubeClient, kubeconfig: Path) -> None:
    from kvedge.appliance.cluster.cluster_objects import may_report
    from kvedge.kube.errors import Unavailable

    try:
        if not may_report(client):
            raise UnfitError(
                f"the cluster gives {kubeconfig} no right to report on VMs: run `kvedge install --role server` on a"
                " server of the cluster first"
            )
    except Unavailable as error:
        raise SilentClusterError(
            f"the cluster of {kubeconfig} does not answer: {error}; does {client.host} run?"
        ) from error


def admin_client(kubeconfig: Path) -> KubeClient:
    """A client; nothing is asked yet.

    Raises:
        KubeconfigError: when the file cannot be used.
    """
    from kvedge.kube.kube_client import KubeClient

    return KubeClient.from_kubeconfig(kubeconfig, "kvedge-install")


def _own_address(client: KubeClient, found: _Found, kubeconfig: Path, role: ClusterRole) -> str:
    """The address of this node in the cluster, which may be empty; a cluster that is not fit is refused."""
    from kvedge.appliance.cluster.cluster_objects import control_plane_version
    from kvedge.kube.errors import NotFound, Unavailable
    from kvedge.resources.types.core import Node

    try:
        node = client.get(Node, "", found.node)
        kubernetes = str(client.request("GET", "/version").get("gitVersion", ""))
        kubelet = str(node.status.node_info.get("kubeletVersion", ""))
        for problem in (
            too_old(kubernetes, f"the API server of {kubeconfig}", "the cluster's servers first"),
            too_old(kubelet, f"the kubelet of {found.node}", "this node's Kubernetes"),
        ):
            if problem:
                raise UnfitError(problem)
        order = wrong_order(role, control_plane_version(client), __version__)
        if order and not found.force:
            raise UnfitError(f"{order} (--force installs all the same)")
        return node_address(node)
    except NotFound as error:
        raise UnknownNodeError(
            f"the cluster of {kubeconfig} has no node {found.node}: start its kubelet (k3s) first, or set node-name"
        ) from error
    except Unavailable as error:
        raise SilentClusterError(
            f"the cluster of {kubeconfig} does not answer: {error}; does {client.host} run?"
        ) from error


def _need_address(node: str, address: str, role: ClusterRole, decided: Set[str]) -> None:
    needed = {"relay-address"} if role == "agent" else {"api-address", "relay-address"}
    if not address and (missing := sorted(needed - decided)):
        raise UnfitError(f"node {node} tells no address of its own: set {' and '.join(missing)}")


def _image(places: NodePlaces, layout: Layout) -> OwnFile:
    """The launcher's empty image, where the distribution loads it from: no registry is asked for it."""
    from kvedge.storage.images.launcher_image import launcher_image

    return OwnFile((places.images or layout.data_dir) / ARCHIVE, launcher_image(platform.machine()))


def find_left_files(settings: Settings, layout: Layout) -> list[Path]:
    """Images and manifests that installations have put where a distribution looks for them."""
    images = [layout.data_dir, *(item.images for item in DISTRIBUTIONS if item.images is not None)]
    manifests = [item.manifests for item in DISTRIBUTIONS if item.manifests is not None]
    images += [Path(settings.images_dir)] if settings.images_dir else []
    manifests += [Path(settings.manifests_dir)] if settings.manifests_dir else []
    places = dict.fromkeys([*(path / ARCHIVE for path in images), *(path / _MANIFEST for path in manifests)])
    return [path for path in places if path.is_file()]


def places_here(operators: Settings) -> NodePlaces:
    """Where things are on this host as a node of its cluster; looks through all processes for its kubelet."""
    return node_places(operators, of_node(Path.exists), find_running_kubelet(), Path.is_dir)
