"""The launcher Pod of a VMI.

Called by the VMI's plan; the result is created by its loop and run by a kubelet or by the node agent of one box. Pure.

The Pod's name follows from the VMI's UID, so that an API server refuses a second Pod for the same run whatever a
controller believes: this is what keeps a VM from running twice when a cache is behind or two controllers are awake.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from kvedge.controller.confinement import make_container_context, make_pod_context
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.node_affinity import near, without_label
from kvedge.controller.vmi.launcher_pod.backup_hooks import make_hooks
from kvedge.controller.vmi.launcher_pod.hook_containers import sidecars_of
from kvedge.controller.vmi.launcher_pod.launcher_pod_probes import pod_probe
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes, pod_resources
from kvedge.controller.vmi.launcher_pod.launcher_pod_volumes import (
    MountedVolume,
    disk_containers,
    launcher_volumes,
    other_containers,
    other_volumes,
    pull_secrets,
)
from kvedge.controller.vmi.launcher_pod.reserved_claims import keep_apart, label_reserved_claims
from kvedge.controller.vmi.launcher_pod.returning_claims import list_servers
from kvedge.controller.vmi.launcher_pod.share_container_manifest import share_containers
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.config_disks import service_account_of
from kvedge.resources.disks.metrics_disk import NODE_VARIABLE, reads_metrics
from kvedge.resources.disks.snapshot_names import BACKUP_WORKER
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus, is_realtime, mirrors_numa
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.masquerade import INJECT_SIDECAR, POD_BRIDGE, SIDECAR_BRIDGES
from kvedge.resources.meta import LocalObjectReference, ObjectMeta, owner_reference
from kvedge.resources.names import (
    APP,
    CAPABILITIES_DIRECTORY,
    COMPUTE_CONTAINER,
    CPU_FEATURE_PREFIX,
    CPU_MANAGER,
    CPU_MODEL_PREFIX,
    CREATED_BY,
    DEFAULT_CONTAINER,
    DOMAIN,
    HOST_MODEL_OBSOLETE,
    KEEP_LAUNCHER,
    LAUNCHER_APP,
    LAUNCHER_GID,
    LAUNCHER_IMAGE,
    MACHINE_TYPE_PREFIX,
    MEMORY_OVERHEAD,
    MIGRATION_TARGET_NODE,
    MIGRATION_TRANSPORT_UNIX,
    NODE_NAME,
    POD_MAC,
    PRIVATE_DIRECTORY,
    PROGRAM_VARIABLE,
    REALTIME,
    SCHEDULABLE,
    SEV,
    SEV_ES,
    SEV_SNP,
    TDX,
    TOOLS_FOLDER,
    UNPAUSED_GATE,
    VM_NAME,
    VMI_ID,
)
from kvedge.resources.pod_annotations import reaches_pod
from kvedge.resources.types.core import (
    Container,
    ContainerPort,
    EnvVar,
    Pod,
    PodSpec,
    ReadinessGate,
    Sysctl,
    VolumeDevice,
    VolumeMount,
)
from kvedge.resources.types.domain import LaunchSecurity
from kvedge.resources.types.guest_nics import (
    bridged_interfaces,
    interface_mac,
    pod_interfaces,
    speaks_by_passt,
)
from kvedge.resources.types.pod_networks import DEFAULT_NETWORK, NETWORKS, default_network, make_wanted_networks
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.ip_addresses import plain_ip
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.name_grammar import LABEL_LENGTH
from kvedge.resources.vmi_facts import grace_seconds, has_host_model

# Seconds beyond the grace period: the launcher ends a guest that the handler has not ended, then the kubelet kills the
# launcher.
_LAUNCHER_MARGIN: Final = 15
_POD_MARGIN: Final = 30
# The node's programs for people who look into the container come before the host's own.
_PATH: Final = f"{CAPABILITIES_DIRECTORY}/{TOOLS_FOLDER}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
# Makes the descheduler ask for an eviction only: a guest needs time to shut down.
_REQUEST_EVICT_ONLY: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
# Other names for the newest machine of its kind, which every QEMU of an architecture has.
_MACHINE_ALIASES: Final = frozenset({"", "q35", "pc", "virt"})
_MODELS_WITHOUT_LABEL: Final = frozenset({"", "host-model", "host-passthrough", "max"})


def launcher_pod(
    vmi: VirtualMachineInstance, config: ClusterConfig, claims: Mapping[str, PersistentVolumeClaim] | None = None
) -> Pod:
    """The Pod in which this VMI's launcher runs; `claims` are those of its namespace that it uses, by name."""
    metadata, spec = _metadata(vmi, config), _spec(vmi, config, launcher_volumes(vmi, config, claims or {}))
    reserved = label_reserved_claims(vmi, claims or {})
    metadata.labels |= reserved
    spec.affinity = near(keep_apart(spec.affinity, reserved), BACKUP_WORKER, list_servers(claims or {}))
    if config.gives_up_models and has_host_model(vmi.spec.domain):
        spec.affinity = without_label(spec.affinity, HOST_MODEL_OBSOLETE)
    return Pod(metadata=metadata, spec=spec)


def pod_grace_seconds(vmi: VirtualMachineInstance) -> int:
    """The Pod's grace period: the kubelet kills a launcher that has not ended by then."""
    return grace_seconds(vmi) + _POD_MARGIN


def _metadata(vmi: VirtualMachineInstance, config: ClusterConfig) -> ObjectMeta:
    meta = vmi.metadata
    return ObjectMeta(
        name=launcher_pod_name(vmi),
        namespace=meta.namespace,
        labels=_labels(vmi),
        annotations=_annotations(vmi, config),
        owner_references=[owner_reference(vmi)],
    )


def _labels(vmi: VirtualMachineInstance) -> dict[str, str]:
    # The scheduler chooses the node.
    passed = {key: value for key, value in vmi.metadata.labels.items() if key not in (NODE_NAME, MIGRATION_TARGET_NODE)}
    return {
        **passed,
        APP: LAUNCHER_APP,
        CREATED_BY: vmi.metadata.uid,
        VMI_ID: as_label_value(vmi.metadata.name),
        VM_NAME: hostname(vmi),
        **_sidecar_label(vmi),
    }


def _sidecar_label(vmi: VirtualMachineInstance) -> dict[str, str]:
    """A service mesh reads the label of a Pod. A VMI has the key among its annotations, as in KubeVirt."""
    asked = vmi.metadata.annotations.get(INJECT_SIDECAR)
    return {} if asked is None else {INJECT_SIDECAR: asked}


def _annotations(vmi: VirtualMachineInstance, config: ClusterConfig) -> dict[str, str]:
    passed = {
        key: value
        for key, value in vmi.metadata.annotations.items()
        if reaches_pod(key)
        and not key.startswith("kubectl.kubernetes.io")
        and not key.endswith("-observed-api-version")
    }
    bridged = bridged_interfaces(vmi)
    networks = make_wanted_networks(vmi, {name: plugin.network for name, plugin in config.bindings.items()})
    default = default_network(vmi)
    is_masqueraded = any(nic.masquerade is not None for _, nic in pod_interfaces(vmi))
    return {
        **passed,
        **make_hooks(vmi, skips=config.skips_backup_hooks),
        **({NETWORKS: networks} if networks else {}),
        **({DEFAULT_NETWORK: default} if default else {}),
        **({POD_MAC: interface_mac(vmi, bridged[0])} if bridged else {}),
        # Tells a mesh's sidecar, if the Pod gets one, from which bridge the guest's traffic comes.
        **(dict.fromkeys(SIDECAR_BRIDGES, POD_BRIDGE) if is_masqueraded else {}),
        DOMAIN: vmi.metadata.name,
        DEFAULT_CONTAINER: COMPUTE_CONTAINER,
        MIGRATION_TRANSPORT_UNIX: "true",
        _REQUEST_EVICT_ONLY: "",
        MEMORY_OVERHEAD: str(overhead_bytes(vmi, config)),
    }


def _spec(vmi: VirtualMachineInstance, config: ClusterConfig, volumes: list[MountedVolume]) -> PodSpec:
    spec = vmi.spec
    compute = _compute(vmi, config, volumes)
    return PodSpec(
        init_containers=disk_containers(vmi, config),
        containers=[compute, *other_containers(vmi, config), *share_containers(vmi, config, compute)],
        volumes=[*(made.volume for made in volumes), *other_volumes(vmi, config)],
        node_selector=_node_selector(vmi, config),
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        topology_spread_constraints=spec.topology_spread_constraints,
        restart_policy="Never",
        termination_grace_period_seconds=pod_grace_seconds(vmi),
        hostname=hostname(vmi),
        subdomain=spec.subdomain,
        dns_policy=spec.dns_policy,
        dns_config=_dns_config(spec.dns_config),
        security_context=make_pod_context(_sysctls(vmi)),
        service_account_name=spec.service_account_name or service_account_of(spec.volumes),
        automount_service_account_token=False,
        enable_service_links=False,
        priority_class_name=spec.priority_class_name,
        scheduler_name=spec.scheduler_name,
        readiness_gates=[ReadinessGate(condition_type=UNPAUSED_GATE)],
        image_pull_secrets=[LocalObjectReference(name=name) for name in pull_secrets(vmi)],
        resource_claims=spec.resource_claims,
    )


def _sysctls(vmi: VirtualMachineInstance) -> list[Sysctl]:
    # The launcher answers DHCP on port 67, and passt takes whatever port the guest has, without any capability.
    found = [Sysctl(name="net.ipv4.ip_unprivileged_port_start", value="0")]
    if speaks_by_passt(vmi):
        # The guest's pings are passt's.
        found.append(Sysctl(name="net.ipv4.ping_group_range", value=f"{LAUNCHER_GID} {LAUNCHER_GID}"))
    return found


def _dns_config(config: JsonObject | None) -> JsonObject | None:
    """The guest's DNS, with addresses that container runtimes and C libraries read as Kubernetes does."""
    servers = None if config is None else config.get("nameservers")
    if config is None or not isinstance(servers, list):
        return config
    return {**config, "nameservers": [plain_ip(str(server)) for server in servers]}


def _compute(vmi: VirtualMachineInstance, config: ClusterConfig, volumes: list[MountedVolume]) -> Container:
    return Container(
        name=COMPUTE_CONTAINER,
        image=LAUNCHER_IMAGE,
        # kvedge puts the image on the node; no registry has it.
        image_pull_policy="Never",
        command=_command(vmi, config),
        ports=_container_ports(vmi),
        env=[
            EnvVar(name="PATH", value=_PATH),
            EnvVar(name=PROGRAM_VARIABLE, value=shlex.join(config.program)),
            EnvVar(name="XDG_CACHE_HOME", value=PRIVATE_DIRECTORY),
            EnvVar(name="XDG_CONFIG_HOME", value=PRIVATE_DIRECTORY),
            EnvVar(name="XDG_RUNTIME_DIR", value="/var/run"),
            EnvVar(name="POD_NAME", value_from={"fieldRef": {"fieldPath": "metadata.name"}}),
            *_name_node(vmi),
        ],
        resources=pod_resources(vmi, config),
        volume_mounts=[made.mount for made in volumes if isinstance(made.mount, VolumeMount)],
        volume_devices=[made.mount for made in volumes if isinstance(made.mount, VolumeDevice)],
        # Runtimes let such containers alone say in which NUMA cell memory is.
        security_context=make_container_context(
            capabilities=["SYS_NICE"] if mirrors_numa(vmi.spec.domain) else [],
            makes_namespaces=speaks_by_passt(vmi),
        ),
        liveness_probe=pod_probe(vmi, vmi.spec.liveness_probe, config.program),
        readiness_probe=pod_probe(vmi, vmi.spec.readiness_probe, config.program),
    )


def _name_node(vmi: VirtualMachineInstance) -> list[EnvVar]:
    """The node's name, for a guest that reads metrics of its host."""
    if not reads_metrics(vmi.spec):
        return []
    return [EnvVar(name=NODE_VARIABLE, value_from={"fieldRef": {"fieldPath": "spec.nodeName"}})]


def _container_ports(vmi: VirtualMachineInstance) -> list[ContainerPort]:
    """The guest's ports, so that Services find them by their names.

    A Pod has each port once, and each name for one port. A name that comes again, as on a second interface, stays with
    its first port.
    """
    made: dict[tuple[int, str], ContainerPort] = {}
    names = {""}
    for each in (port for interface in vmi.spec.domain.devices.interfaces for port in interface.ports):
        protocol = each.protocol or "TCP"
        known = made.get((each.port, protocol))
        name = "" if each.name in names else each.name
        if known is None or (name and not known.name):
            made[each.port, protocol] = ContainerPort(container_port=each.port, name=name, protocol=protocol)
            names.add(name)
    return list(made.values())


def _command(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[str]:
    meta = vmi.metadata
    made = [*config.program, "launcher", "--monitor", "--namespace", meta.namespace, "--name", meta.name]
    made += ["--uid", meta.uid, "--grace-period-seconds", str(grace_seconds(vmi) + _LAUNCHER_MARGIN)]
    if hooks := sidecars_of(vmi, config):
        made += ["--hook-sidecars", str(len(hooks))]
    if meta.annotations.get(KEEP_LAUNCHER, "").lower() == "true":
        made.append("--keep-after-failure")
    return made


def _node_selector(vmi: VirtualMachineInstance, config: ClusterConfig) -> dict[str, str]:
    selector: dict[str, str] = {}
    cpu = vmi.spec.domain.cpu
    if cpu is not None:
        if cpu.model not in _MODELS_WITHOUT_LABEL:
            selector[f"{CPU_MODEL_PREFIX}{cpu.model}"] = "true"
        for feature in cpu.features:
            if feature.policy in ("", "require"):
                selector[f"{CPU_FEATURE_PREFIX}{feature.name}"] = "true"
    machine = vmi.spec.domain.machine
    if machine is not None and machine.type not in _MACHINE_ALIASES:
        selector[f"{MACHINE_TYPE_PREFIX}{machine.type}"] = "true"
    # These win over all others: a VM never goes to a node that takes none, or of another architecture.
    architecture = vmi.spec.architecture or config.default_architecture
    ours = {SCHEDULABLE: "true", "kubernetes.io/arch": architecture}
    if has_dedicated_cpus(vmi.spec.domain):
        ours[CPU_MANAGER] = "true"
    if is_realtime(vmi.spec.domain):
        # KubeVirt's label has no value.
        ours[REALTIME] = ""
    ours |= dict.fromkeys(_encryption_labels(vmi.spec.domain.launch_security), "true")
    return {**selector, **config.node_selectors, **vmi.spec.node_selector, **ours}


def _encryption_labels(security: LaunchSecurity | None) -> list[str]:
    """The labels of nodes that can encrypt its guest's memory."""
    if security is None:
        return []
    asked = {
        SEV: security.uses_sev,
        SEV_ES: security.sev is not None and security.sev.encrypts_state,
        SEV_SNP: security.snp is not None,
        TDX: security.tdx is not None,
    }
    return [label for label, is_needed in asked.items() if is_needed]


def hostname(vmi: VirtualMachineInstance) -> str:
    """The guest's host name: as asked for, else the VMI's name up to its first dot."""
    return (vmi.spec.hostname or vmi.metadata.name).partition(".")[0][:LABEL_LENGTH].rstrip("-")
