"""The status of Pods. Notation: see `builtin_schemas`."""

from __future__ import annotations

from typing import Final

POD_STATUS: Final = """
PodStatus: What a Pod is now.
  phase string: Pending, Running, Succeeded, Failed or Unknown.
  conditions [PodCondition] by type: Aspects of the state.
  message string: Why the Pod is as it is, for people.
  reason string: Why the Pod is as it is, in one word.
  nominatedNodeName string: Node that is being freed for the Pod.
  hostIP string: Address of the node.
  hostIPs [HostIP]: Addresses of the node.
  podIP string: Address of the Pod.
  podIPs [PodIP] by ip: Addresses of the Pod.
  startTime time: When the node took the Pod over.
  observedGeneration integer: The generation that this was found for.
  initContainerStatuses [ContainerStatus]: States of the init containers.
  containerStatuses [ContainerStatus]: States of the containers.
  ephemeralContainerStatuses [ContainerStatus]: States of the ephemeral containers.
  qosClass string: Guaranteed, Burstable or BestEffort.
  resize string: State of a change of resources.
  resources ResourceRequirements: What the Pod has.
  allocatedResources {quantity}: What the node set aside.
  resourceClaimStatuses [object]: States of the devices.
  extendedResourceClaimStatus object: State of devices asked for as resources.
  nodeAllocatableResourceClaimStatuses [object]: What devices take from the node.
  volumeHealth [object]: States of the volumes.

HostIP: An address of a node.
  ip! string: The address.

PodIP: An address of a Pod.
  ip! string: The address.

PodCondition: One aspect of a Pod's state.
  type! string: The aspect.
  status! string: True, False or Unknown.
  observedGeneration integer: The generation that this was found for.
  lastProbeTime time: When it was last looked at.
  lastTransitionTime time: When the status last changed.
  reason string: Why, in one word.
  message string: Why, for people.

ContainerStatus: The state of a container.
  name! string: Name of the container.
  state ContainerState: What it does now.
  lastState ContainerState: How it ended last.
  ready! boolean: Whether it is ready.
  restartCount! int32: How often it was restarted.
  image! string: Its image.
  imageID! string: Digest of the image.
  containerID string: Its identity in the runtime.
  started boolean: Whether its startup probe succeeded.
  stopSignal string: Signal that ends it.
  resources ResourceRequirements: What it has.
  allocatedResources {quantity}: What the node set aside.
  allocatedResourcesStatus [object]: States of its devices.
  user object: Identity of its first process.
  volumeMounts [object]: States of its mounts.

ContainerState: What a container does, one of the three.
  waiting ContainerStateWaiting: It has not started.
  running ContainerStateRunning: It runs.
  terminated ContainerStateTerminated: It has ended.

ContainerStateWaiting: Why a container has not started.
  reason string: In one word.
  message string: For people.

ContainerStateRunning: Since when a container runs.
  startedAt time: When it started.

ContainerStateTerminated: How a container ended.
  exitCode! int32: Exit code.
  signal int32: Signal that ended it.
  reason string: Why, in one word.
  message string: Why, for people.
  startedAt time: When it had started.
  finishedAt time: When it ended.
  containerID string: Its identity in the runtime.
"""
