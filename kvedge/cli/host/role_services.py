"""The roles as services when each runs by itself against a cluster.

Called by the role verbs. Makes roles from settings; nothing starts here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvedge import __version__
from kvedge.appliance.cluster.cluster_node_plan import handler_kubeconfig
from kvedge.appliance.host.launcher_link import LauncherLink, launcher_command, launcher_directories
from kvedge.appliance.host.patient_start import PatientStart
from kvedge.cli.exits import Exit, Refused
from kvedge.kube.credentials.service_account import ACCOUNT_DIRECTORY, in_pod
from kvedge.runtime.architecture import host_architecture
from kvedge.runtime.services import Service
from kvedge.runtime.settings import Settings

if TYPE_CHECKING:
    from kvedge.runtime.tls.certificates import TlsFiles

# The name of the service that fences the node.
FENCING: Final = "fencing"
_KUBELET: Final = Path("/var/lib/kubelet")
# Longer than a runtime takes from reading the link to the launcher's first instruction.
_START_SECONDS: Final = 600.0


def controller_services(settings: Settings) -> Sequence[Service]:
    """The controller, standing for election."""
    from kvedge.controller.alarms.words.teller_desk import WordPlaces
    from kvedge.controller.controller_service import ControllerRole
    from kvedge.controller.kubevirt.cluster_config import ClusterConfig

    config = ClusterConfig(
        version=__version__,
        program=tuple(launcher_command(settings.data_path)),
        program_directories=tuple(launcher_directories(settings.data_path)),
        capabilities_directory=str(_capabilities(settings)),
        default_architecture=host_architecture(),
        # A controller has no node of its own to try: it asks for /dev/kvm unless it is told that guests are emulated.
        use_emulation=settings.emulation == "tcg",
        emulation_is_set=settings.emulation_is_set,
    )
    words = WordPlaces(settings.user_kubeconfig.parent, settings.effective_node_name)
    return [ControllerRole(role_kubeconfig(settings, "controller"), config, leader_election=True, words=words)]


def api_services(settings: Settings) -> Sequence[Service]:
    """Admission and subresources."""
    from kvedge.api.api_service import ApiOptions, ApiRole
    from kvedge.kube.errors import KubeError

    kubeconfig = role_kubeconfig(settings, "api")
    options = ApiOptions(instance=settings.effective_node_name)
    return [PatientStart("api", lambda: ApiRole(kubeconfig, settings.api_address, options), (KubeError,))]


def handler_services(settings: Settings) -> Sequence[Service]:
    """The handler of this node."""
    from kvedge.handler.fencing.fence_service import FenceConfig, FenceService
    from kvedge.handler.handler_service import HandlerConfig, HandlerError, HandlerRole
    from kvedge.handler.node.kvm_check import choose_accelerator
    from kvedge.kube.errors import KubeError

    kubeconfig, node, state = (
        role_kubeconfig(settings, "handler"),
        settings.effective_node_name,
        settings.state_path / "handler",
    )
    fencing = FenceService(FenceConfig(kubeconfig, node, state / "fence.json"))
    config = HandlerConfig(
        kubeconfig=kubeconfig,
        node=node,
        kubelet=kubelet_directory(settings),
        state=state,
        capabilities=_capabilities(settings),
        accelerator=choose_accelerator(settings.emulation, settings.state_path),
        accelerator_is_set=settings.emulation_is_set,
        relay_address=settings.relay_address,
        joins_lans=True,
        refuse_start=fencing.refuse_start,
    )
    role = PatientStart("handler", lambda: HandlerRole(config), (HandlerError, KubeError))
    # The fencer first: it stops last, and does not wait for the API as the role does.
    return [fencing, LauncherLink(settings.data_path), role, _make_image_keeper(settings), _old_versions(settings)]


def _make_image_keeper(settings: Settings) -> Service:
    """What launcher Pods of an installed node run from."""
    from kvedge.appliance.cluster.kept_image import KeptImage, image_source

    return KeptImage(lambda: image_source(settings))


def _old_versions(settings: Settings) -> Service:
    """Trees of versions before this one; a Pod that a runtime is starting may have been told of one just now."""
    from kvedge.appliance.install.unpacked_trees import OldVersions

    return OldVersions(settings.data_path, None, _START_SECONDS)


def node_services(settings: Settings) -> Sequence[Service]:
    """Those of the three that the setting node-roles names."""
    make = {"controller": controller_services, "api": api_services, "handler": handler_services}
    services = [service for role in settings.roles_of_node for service in make[role](settings)]
    if settings.console_address and "api" not in settings.roles_of_node:
        remedy = "leave the setting away here, or name api in node-roles"
        raise Refused(f"console-address: the console is where the api role is: {remedy}", Exit.USAGE)
    services += server_console_services(settings)
    # The others wait for the API. A watchdog that an earlier process has armed waits for nobody.
    return sorted(services, key=lambda service: service.name != FENCING)


def console_services(settings: Settings) -> Sequence[Service]:
    """The console of one box, where the setting console-address says; it shows the API server's certificate."""
    if not settings.console_address:
        return []
    from kvedge.runtime.tls.certificates import TlsFiles
    from kvedge.web.on_box.box_console import BoxConsole

    pki = settings.state_path / "pki"
    files = TlsFiles(pki / "server-ca.crt", pki / "server.crt", pki / "server.key")
    return [BoxConsole(settings.console_address, settings.user_kubeconfig, _find_given(settings) or files)]


def server_console_services(settings: Settings) -> Sequence[Service]:
    """The console of a server of a cluster, where the setting console-address says, with a certificate of its own.

    Raises:
        Refused: when this node does not have the api role, or no kubeconfig is named.
    """
    if not settings.console_address:
        return []
    from kvedge.standalone.apiserver.access.server_certificate import names_of_server
    from kvedge.web.on_box.box_console import BoxConsole
    from kvedge.web.on_box.own_certificate import OwnCertificate

    host = settings.console_address.rpartition(":")[0].strip("[]")
    own = OwnCertificate(settings.state_path / "console", lambda: names_of_server(host, ()))
    return [BoxConsole(settings.console_address, role_kubeconfig(settings, "api"), _find_given(settings) or own)]


def _find_given(settings: Settings) -> TlsFiles | None:
    """The certificate that the settings name for the console; None for none."""
    from kvedge.runtime.tls.certificates import TlsFiles

    if not settings.console_certificate:
        return None
    certificate = Path(settings.console_certificate)
    # Browsers get the chain as it stands in the file; nobody here is asked to trust an authority.
    return TlsFiles(certificate, certificate, Path(settings.console_key))


def kubelet_directory(settings: Settings) -> Path:
    """Where the kubelet of a cluster's node keeps its Pods."""
    return Path(settings.kubelet_dir) if settings.kubelet_dir else _KUBELET


def _capabilities(settings: Settings) -> Path:
    return settings.data_path / "qemu-capabilities"


def role_kubeconfig(settings: Settings, role: str) -> Path:
    """The kubeconfig of a role. A directory holds one for each role, as each has a name of its own.

    In a Pod it is the Pod's service account, unless another one is named. A handler without one speaks as its node,
    where that has been set.

    Raises:
        Refused: when none is named, or the directory has none for this role.
    """
    if role == "handler" and settings.node_kubeconfig:
        # Before the environment's, which is an administrator's in a shell of root's.
        return handler_kubeconfig(settings, Path(settings.node_kubeconfig))
    path = settings.kubeconfig or os.environ.get("KUBECONFIG", "").split(":")[0]
    if not path and in_pod(os.environ):
        return ACCOUNT_DIRECTORY
    if not path:
        raise Refused("name the cluster with --kubeconfig, $KUBECONFIG or the setting kubeconfig", Exit.USAGE)
    if not Path(path).is_dir():
        return Path(path)
    own = Path(path, role)
    if not own.is_file():
        raise Refused(f"{own} does not exist: make it with `kvedge user role {role} --output {own}`", Exit.USAGE)
    return own
