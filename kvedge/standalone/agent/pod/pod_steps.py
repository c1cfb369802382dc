"""Doing what the Pod plan says, one step at a time.

Called by the Pod loop in the worker that has the Pod's key. Every step may be repeated. A step that cannot be done
raises :class:`StepError`, and the plan comes to it again.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.kube.errors import NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.resources.types.core import Container, Pod
from kvedge.resources.types.pod_networks import NETWORKS, NO_NETWORK
from kvedge.resources.values.quantities import QuantityError
from kvedge.standalone.agent.container.container_plan import ContainerPlanError, plan_container
from kvedge.standalone.agent.container.container_start import ContainerStarter, ContainerStartError
from kvedge.standalone.agent.container.container_state import signal_container
from kvedge.standalone.agent.container.container_user import UserError, container_user
from kvedge.standalone.agent.container.probe_questions import keep_process_spec
from kvedge.standalone.agent.container.termination_message import make_termination_mount
from kvedge.standalone.agent.pod.image_pulls import ImagePulls
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.place.container_env import container_env
from kvedge.standalone.agent.pod.place.cpu_pool import CpuError, exclusive_cpus
from kvedge.standalone.agent.pod.place.device_manager import DeviceError, DeviceManager, device_requests
from kvedge.standalone.agent.pod.place.pod_place import PlaceError, Places
from kvedge.standalone.agent.pod.place.volume_files import VolumeError
from kvedge.standalone.agent.pod.pod_plan import (
    AskForImages,
    AskToEnd,
    EndUnhealthy,
    ForgetPod,
    ImageProblem,
    Kill,
    LimitCpu,
    LookAgain,
    MakePlace,
    ReleasePlace,
    StartContainer,
    Step,
)
from kvedge.standalone.agent.pod.pod_record import write_pod_record
from kvedge.standalone.agent.pod.pod_resizing import pod_as_held
from kvedge.standalone.agent.warm.warm_starts import WarmStarts
from kvedge.storage.image_errors import ImageError

log = logging.getLogger(__name__)

_CREATING: Final = "ContainerCreating"


class StepError(Exception):
    """A step cannot be done now: what a waiting container shows, and the reason of the event."""

    def __init__(self, event: str, problem: ImageProblem) -> None:
        super().__init__(problem.message)
        self.event = event
        self.problem = problem


class PodSteps(Struct, frozen=True):
    """Everything that steps need."""

    client: KubeClient
    events: EventRecorder
    pods: LocalPods
    places: Places
    pulls: ImagePulls
    devices: DeviceManager
    starter: ContainerStarter
    # Has launchers started from a warm parent; None where each is started apart.
    warm: WarmStarts | None
    boot_id: str
    host_address: str
    # Writes the Pod's status, when it changed, before its object goes.
    write_status: Callable[[LocalPod], None]

    def apply(self, local: LocalPod, step: Step) -> bool:
        """Do a step; whether looking at the Pod anew may show something new.

        Raises:
            StepError: when it cannot be done now.
            KubeError: when the API cannot be asked.
        """
        try:
            return self._apply(local, step)
        except OSError as error:
            # This host's own file system: a full disk, most often.
            what = f" ({error.filename})" if error.filename else ""
            raise StepError("FailedCreatePodSandBox", ImageProblem(_CREATING, f"{error.strerror}{what}")) from error

    def _apply(self, local: LocalPod, step: Step) -> bool:
        match step:
            case AskForImages():
                there = [self.pulls.ask(local.pod, reference) for reference in step.references]
                return all(there)
            case MakePlace():
                self._make_place(local)
            case StartContainer():
                self._start(local, step.name)
            case LimitCpu():
                # A failed step holds up no other, and is tried again in the Pod's next pass.
                local.cpu_is_limited = self._limit_cpu(local)
            case AskToEnd():
                self._signal(local, step.names, signal.SIGTERM)
                local.stop_asked_at = time.time()
            case EndUnhealthy():
                self._end_unhealthy(local, step.name)
            case Kill():
                self._signal(local, step.names, signal.SIGKILL)
            case ReleasePlace():
                self._release(local)
            case ForgetPod():
                self._forget(local)
            case LookAgain():
                return False
        return True

    def _limit_cpu(self, local: LocalPod) -> bool:
        uid = local.files.uid
        return self.places.cgroups.limit_cpu(uid, self.places.limits_of(pod_as_held(local.pod, local), uid))

    def _make_place(self, local: LocalPod) -> None:
        other = self.pods.claim(local)
        if other:
            raise StepError("FailedCreatePodSandBox", ImageProblem(_CREATING, f"waiting for the end of pod {other}"))
        # One that waits for more has what was set aside for it, also with the next agent.
        pod, uid = pod_as_held(local.pod, local), local.files.uid
        volumes = {item.name: item.image.reference for item in pod.spec.volumes if item.image is not None}
        trees = {name: Path(self.pulls.image(uid, reference).tree) for name, reference in volumes.items()}
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        local.record.boot_id = self.boot_id
        local.record.image_ids = {item.name: self.pulls.image(uid, item.image).image_id for item in containers}
        try:
            wanted = [device_requests(item.resources.limits) for item in containers]
            local.record.devices = self.devices.reserve(uid, _merge_largest(wanted))
            local.record.cpus = self.places.cpus.reserve(uid, exclusive_cpus(pod))
        except (DeviceError, CpuError) as error:
            raise StepError("UnexpectedAdmissionError", ImageProblem(_CREATING, str(error))) from error
        except QuantityError as error:
            raise StepError("FailedCreatePodContainer", ImageProblem(_CREATING, str(error))) from error
        write_pod_record(local.files, local.record)
        try:
            local.place = self.places.make(pod, local.files, local.record.addresses, trees)
        except VolumeError as error:
            raise StepError("FailedMount", ImageProblem(_CREATING, str(error))) from error
        except PlaceError as error:
            raise StepError(error.reason, ImageProblem(NO_NETWORK, str(error))) from error
        except QuantityError as error:
            raise StepError("FailedCreatePodContainer", ImageProblem(_CREATING, str(error))) from error
        local.joined_for = pod.metadata.annotations.get(NETWORKS, "")
        local.network_status = local.place.network_status

    def _start(self, local: LocalPod, name: str) -> None:
        pod = local.pod
        container = next(item for item in (*pod.spec.init_containers, *pod.spec.containers) if item.name == name)
        try:
            self._start_container(local, container)
        except (ContainerPlanError, UserError) as error:
            raise StepError("Failed", ImageProblem("CreateContainerConfigError", str(error))) from error
        except DeviceError as error:
            raise StepError("UnexpectedAdmissionError", ImageProblem(_CREATING, str(error))) from error
        except ContainerStartError as error:
            raise StepError("Failed", ImageProblem("CreateContainerError", str(error))) from error
        self.events.record(pod, "Normal", "Started", f"Started container {name}")

    def _start_container(self, local: LocalPod, container: Container) -> None:
        pod, place = local.pod, local.place
        assert place is not None
        image = self.pulls.image(local.files.uid, container.image)
        user = container_user(pod, container, image.config.user, image.tree)
        env = container_env(pod, container, self.places.reader, local.record.addresses, self.host_address)
        ids = self.devices.reserve(local.files.uid, device_requests(container.resources.limits))
        allocated = self.devices.allocate(ids)
        spec = plan_container(
            pod, container, place, (image.config, str(image.tree)), user, {**env, **allocated.env}, allocated.devices
        )
        spec["mounts"].extend(allocated.mounts)
        if container.termination_message_path:
            files = local.files.container(container.name)
            spec["mounts"].append(make_termination_mount(files, container.termination_message_path))
        keep_process_spec(local.files.container(container.name), spec)
        if self.warm is not None and container.image == LAUNCHER_IMAGE:
            self.warm.start(spec, self.pods.count_others(local, LAUNCHER_IMAGE))
        else:
            self.starter.start(spec)
        self.places.cgroups.settle(local.files.uid)

    def _signal(self, local: LocalPod, names: tuple[str, ...], number: signal.Signals) -> None:
        for name in names:
            signalled = signal_container(local.files.container(name), number, self.boot_id)
            if signalled and number == signal.SIGTERM:
                self.events.record(local.pod, "Normal", "Killing", f"Stopping container {name}")

    def _end_unhealthy(self, local: LocalPod, name: str) -> None:
        self.events.record(local.pod, "Normal", "Killing", f"Container {name} failed liveness probe")
        signal_container(local.files.container(name), signal.SIGTERM, self.boot_id)
        local.unhealthy_since[name] = time.time()

    def _release(self, local: LocalPod) -> None:
        try:
            self.places.release(local.files)
        except PlaceError as error:
            raise StepError(error.reason, ImageProblem("", str(error))) from error
        self.devices.release(local.files.uid)
        self.places.cpus.release(local.files.uid)
        local.place = None
        local.released = True
        local.in_the_way = False

    def _forget(self, local: LocalPod) -> None:
        """Last word, then everything of ours, then the object: as long as it is there, something may be left."""
        self.write_status(local)
        try:
            if local.record.forgotten:
                self._keep_data(local)
            self.places.forget(local.files)
            self.pulls.forget(local.files.uid)
        except (PlaceError, ImageError) as error:
            raise StepError("FailedKillPod", ImageProblem("", str(error))) from error
        if local.gone_since is None:
            remove_object(self.client, local.pod)
        self.pods.forget(local.files.uid)

    def _keep_data(self, local: LocalPod) -> None:
        kept = self.places.keep_data(local.files)
        if kept is None:
            return
        facts = {"pod": str(local.key), "kept": str(kept), "remedy": f"rm -r {kept}, once nothing in it is needed"}
        log.warning("the data of a pod that the object store has forgotten was kept", extra={"facts": facts})


def _merge_largest(wanted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Containers of a Pod share its devices: of each resource the largest number is enough."""
    found: dict[str, int] = {}
    for requests in wanted:
        for resource, count in requests.items():
            found[resource] = max(found.get(resource, 0), count)
    return found


def remove_object(client: KubeClient, pod: Pod) -> None:
    """Let the API forget a Pod that has ended here.

    Raises:
        KubeError: when it cannot.
    """
    meta = pod.metadata
    try:
        client.delete(Pod, meta.namespace, meta.name, Preconditions(uid=meta.uid), grace_seconds=0)
    except NotFound:
        # Somebody deleted it by force meanwhile.
        log.debug("pod object was gone", extra={"facts": {"pod": f"{meta.namespace}/{meta.name}"}})
