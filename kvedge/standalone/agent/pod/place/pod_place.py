"""A Pod's place on this node: volumes, network namespace with its address, cgroup, hosts and resolv.conf.

Called by the Pod loop. Every step may be repeated, and takes up where an earlier agent was killed; the record with
the address is written before anything is made.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.network.errors import NetworkError
from kvedge.network.host_resolver import host_resolv_conf
from kvedge.network.pods.attachments import NodeNetworkConfig, attachment_for, netns_name
from kvedge.network.pods.pod_network import attach_pod, detach_pod
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import POD_MAC
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import ConfigMap, Pod, Secret
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.values.bandwidth import pod_bandwidth
from kvedge.runtime.durable_files import write_whole
from kvedge.standalone.agent.container.cgroups import CgroupLimits, Cgroups, kill_all
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_plan import PodPlace, hostname, pod_limits
from kvedge.standalone.agent.pod.place.cpu_pool import CpuPool, exclusive_cpus
from kvedge.standalone.agent.pod.place.pod_networks import (
    PodNetworkError,
    follow_networks,
    join_networks,
    leave_networks,
)
from kvedge.standalone.agent.pod.place.pod_remains import remove_pod_directory
from kvedge.standalone.agent.pod.place.pod_volumes import keep_empty_dirs, set_up_volumes
from kvedge.standalone.agent.pod.place.resolv_conf import pod_resolv_conf, refresh_resolv_conf

# Kubernetes keeps one in each namespace.
_ROOT_CA: Final = "kube-root-ca.crt"
_NETNS_DIRECTORY: Final = "/run/netns"


class PlaceError(Exception):
    """Something of a Pod's place cannot be made; `reason` is the event's, the text its message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ApiReader(Struct, frozen=True):
    """Secrets, ConfigMaps and claims from the API."""

    client: KubeClient
    # The certificate by which clients know the box's API.
    authority: Path | None = None

    def token(self, pod: Pod, account: str, audience: str, seconds: int) -> str | None:
        """A token of a Pod's service account, for so many seconds and while the Pod is there; None without account."""
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid}
        audiences = [audience] if audience else []
        spec: JsonObject = {"expirationSeconds": seconds, "audiences": audiences, "boundObjectRef": bound}
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/serviceaccounts/{account}/token"
        try:
            answer = self.client.request("POST", path, {"kind": "TokenRequest", "spec": spec})
        except NotFound:
            return None
        status = answer.get("status") if isinstance(answer, dict) else None
        return str(status["token"]) if isinstance(status, dict) and "token" in status else None

    def secret(self, namespace: str, name: str) -> Secret | None:
        """The Secret, or None."""
        try:
            return self.client.get(Secret, namespace, name)
        except NotFound:
            return None

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """The ConfigMap, or None; where nobody has put `kube-root-ca.crt`, it has the box's own certificate."""
        try:
            return self.client.get(ConfigMap, namespace, name)
        except NotFound:
            if name == _ROOT_CA and self.authority is not None:
                return ConfigMap(data={"ca.crt": self.authority.read_text()})
            return None

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """The claim, or None."""
        try:
            return self.client.get(PersistentVolumeClaim, namespace, name)
        except NotFound:
            return None

    def network_attachment(self, namespace: str, name: str) -> NetworkAttachmentDefinition | None:
        """The network, or None."""
        try:
            return self.client.get(NetworkAttachmentDefinition, namespace, name)
        except NotFound:
            return None

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """The volume, or None."""
        try:
            return self.client.get(PersistentVolume, "", name)
        except NotFound:
            return None


class Places(Struct, frozen=True):
    """Makes and takes back the places of one instance's Pods."""

    network: NodeNetworkConfig
    cgroups: Cgroups
    reader: ApiReader
    node_memory: int
    # Which Pods have CPUs for themselves.
    cpus: CpuPool
    # The name server for Pods, which knows VMs and Services; empty for none.
    name_server: str = ""

    def make(self, pod: Pod, files: PodFiles, addresses: tuple[str, ...], images: Mapping[str, Path]) -> PodPlace:
        """Make what a Pod's containers need; `images` has the trees of its image volumes.

        Raises:
            VolumeError: when a volume cannot be made.
            PlaceError: when the network cannot be made.
            KubeError: when the API cannot be asked.
        """
        volumes = set_up_volumes(pod, files, images, self.reader)
        netns = status = ""
        if not pod.spec.host_network:
            netns = self.netns_of(files.uid)
            try:
                annotations = pod.metadata.annotations
                speeds = pod_bandwidth(annotations)
                address, ipv6_address = (*addresses, "")[:2]
                mac = annotations.get(POD_MAC)
                attachment = attach_pod(self.network, netns, address, mac, ipv6_address, bandwidth=speeds)
                status = join_networks(self.network, pod, attachment, self.reader.network_attachment)
            except (NetworkError, PodNetworkError, ValueError) as error:
                # A ValueError: what a user has written into the annotations is no MAC, or no bandwidth.
                raise PlaceError("FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}") from error
        self._write_files(pod, files, addresses)
        return PodPlace(
            files=files,
            volumes=volumes,
            netns=f"{_NETNS_DIRECTORY}/{netns}" if netns else "",
            cgroups=self._make_cgroups(pod, files.uid),
            node_memory=self.node_memory,
            network_status=status,
        )

    def limits_of(self, pod: Pod, uid: str) -> CgroupLimits:
        """What its cgroups are limited to. Raises QuantityError."""
        limits = replace(pod_limits(pod), cpus=self.cpus.cpuset_of(uid))
        # A quota would stop a guest on CPUs that nobody else may use.
        return replace(limits, cpu_limit=0) if exclusive_cpus(pod) else limits

    def _make_cgroups(self, pod: Pod, uid: str) -> list[str]:
        limits = self.limits_of(pod, uid)
        made = self.cgroups.create(uid, limits)
        if exclusive_cpus(pod) and self.cgroups.cpus_of(uid) != limits.cpus:
            text = "the host's cgroups cannot keep others off the CPUs of this guest: they have no cpuset"
            raise PlaceError("FailedCreatePodSandBox", f"{text}; boot with systemd, or mount the controller")
        return made

    def follow_networks(self, pod: Pod, files: PodFiles, addresses: Sequence[str]) -> tuple[str, str]:
        """Bring a Pod that runs onto the networks that it names by now; what to tell of them, and what is in the way.

        Raises:
            PlaceError: when nothing can be done about it now.
            KubeError: when the API cannot be asked.
        """
        address, ipv6_address = (*addresses, "")[:2]
        mac = pod.metadata.annotations.get(POD_MAC)
        try:
            own = attachment_for(self.network, self.netns_of(files.uid), address, mac, ipv6_address)
            return follow_networks(self.network, pod, own, self.reader.network_attachment)
        except (NetworkError, PodNetworkError, ValueError) as error:
            # A ValueError: a user has written what is no MAC.
            raise PlaceError("FailedJoinNetwork", str(error)) from error

    def netns_of(self, uid: str) -> str:
        """The name of a Pod's network namespace."""
        return netns_name(self.network, uid)

    def release(self, files: PodFiles) -> None:
        """Take network and cgroup back; whatever is left of the Pod's processes is killed.

        Raises:
            PlaceError: when something cannot be taken back yet.
        """
        kill_all(lambda: self.cgroups.processes(files.uid))
        try:
            leave_networks(self.network, self.netns_of(files.uid))
            detach_pod(self.network, self.netns_of(files.uid))
            self.cgroups.remove(files.uid)
        except (NetworkError, OSError) as error:
            raise PlaceError("FailedKillPod", f"error killing pod: {error}") from error

    def keep_data(self, files: PodFiles) -> Path | None:
        """Save what a Pod wrote into its emptyDirs from :meth:`forget`; where it is, None when there is nothing.

        Raises:
            PlaceError: when it cannot be moved yet.
        """
        try:
            return keep_empty_dirs(files)
        except OSError as error:
            raise PlaceError("FailedKillPod", f"error keeping the pod's data: {error}") from error

    def forget(self, files: PodFiles) -> None:
        """Remove a Pod's volumes and its whole directory.

        Raises:
            PlaceError: when something cannot be removed yet.
        """
        try:
            remove_pod_directory(files)
        except OSError as error:
            raise PlaceError("FailedKillPod", f"error removing the pod's directory: {error}") from error

    def _write_files(self, pod: Pod, files: PodFiles, addresses: tuple[str, ...]) -> None:
        name = hostname(pod)
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
        lines += [f"{address}\t{name}" for address in addresses]
        hosts = "".join(f"{line}\n" for line in lines)
        write_whole(files.hosts, hosts.encode())
        # Never replaced: some of the Pod's containers may run already, and have this very file mounted.
        files.resolv.touch()
        refresh_resolv_conf(files.resolv, pod_resolv_conf(pod, host_resolv_conf(), self.name_server))
        for path in (files.hosts, files.resolv):
            path.chmod(0o644)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            paths = files.container(container.name)
            for folder in (paths.record.parent, paths.stage, paths.log.parent):
                folder.mkdir(parents=True, exist_ok=True)


def secret_text(secret: Secret, key: str) -> str | None:
    """One value of a Secret as text, or None when it has no such key or it is no text."""
    try:
        return base64.b64decode(secret.data[key]).decode()
    except (KeyError, ValueError):
        return None
