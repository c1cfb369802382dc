"""The core kinds besides Pods. Notation: see `builtin_schemas`."""

from __future__ import annotations

from typing import Final

CORE: Final = """
Node kind: A machine that runs Pods.
  spec NodeSpec: What the node should be.
  status NodeStatus: What the node is now.

NodeSpec: What a node should be.
  unschedulable boolean: Whether new Pods are kept away.
  taints [Taint]: What keeps Pods away that do not tolerate it.
  podCIDR string: Addresses for Pods of the node.
  podCIDRs [string] set: Addresses for Pods of the node, by family.
  providerID string: Identity of the machine at its provider.
  podPreemptionPolicy object: Which Pods may be preempted.
  configSource object: Not used any more.
  externalID string: Not used any more.

Taint: What keeps Pods away that do not tolerate it.
  key! string: Key of the taint.
  value string: Value of the taint.
  effect! string: NoSchedule, PreferNoSchedule or NoExecute.
  timeAdded time: When it was added.

NodeStatus: What a node is now.
  capacity {quantity}: What the node has.
  allocatable {quantity}: What the node has for Pods.
  phase string: Not used any more.
  conditions [NodeCondition] by type: Aspects of the state.
  addresses [NodeAddress] by type: Addresses and names of the node.
  daemonEndpoints object: Ports of the node's agent.
  nodeInfo NodeSystemInfo: What the node runs.
  images [ContainerImage]: Images on the node.
  volumesInUse [string]: Volumes in use.
  volumesAttached [object]: Volumes attached.
  config object: Not used any more.
  runtimeHandlers [object]: Runtimes of the node.
  features object: What the runtime can do.
  declaredFeatures [string]: What the node says it can do.

NodeCondition: One aspect of a node's state.
  type! string: The aspect.
  status! string: True, False or Unknown.
  lastHeartbeatTime time: When it was last looked at.
  lastTransitionTime time: When the status last changed.
  reason string: Why, in one word.
  message string: Why, for people.

NodeAddress: An address or name of a node.
  type! string: InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS.
  address! string: The address.

NodeSystemInfo: What a node runs.
  machineID! string: Identity of the installation.
  systemUUID! string: Identity of the hardware.
  bootID! string: Identity of the boot.
  kernelVersion! string: Version of the kernel.
  osImage! string: Name of the operating system.
  containerRuntimeVersion! string: Version of the container runtime.
  kubeletVersion! string: Version of the node's agent.
  kubeProxyVersion! string: Not used any more.
  operatingSystem! string: Operating system.
  architecture! string: Architecture of the processor.
  runningInUserNamespace boolean: Whether the agent runs in a user namespace.
  swap object: Swap space.

ContainerImage: An image on a node.
  names [string]: Names of the image.
  sizeBytes integer: Its size.

Namespace kind: A space in which names are unique.
  spec NamespaceSpec: What the namespace should be.
  status NamespaceStatus: What the namespace is now.

NamespaceSpec: What a namespace should be.
  finalizers [string]: Who must agree before it is removed.

NamespaceStatus: What a namespace is now.
  phase string: Active or Terminating.
  conditions [StatusCondition] by type: Aspects of the state.

StatusCondition: One aspect of an object's state.
  type! string: The aspect.
  status! string: True, False or Unknown.
  lastProbeTime time: When it was last looked at.
  lastTransitionTime time: When the status last changed.
  reason string: Why, in one word.
  message string: Why, for people.

Secret kind: Confidential data.
  data {bytes}: The data, in base64.
  stringData {string}: The data as it is; only for writing.
  type string: What the data is for.
  immutable boolean: Whether the data can never be changed.

ConfigMap kind: Settings.
  data {string}: The settings.
  binaryData {bytes}: Settings that are not text, in base64.
  immutable boolean: Whether the settings can never be changed.

ServiceAccount kind: An identity for Pods.
  secrets [ObjectReference] by name: Secrets that Pods of this identity may use.
  imagePullSecrets [LocalObjectReference]: Secrets with credentials for registries.
  automountServiceAccountToken boolean: Whether Pods get a token of the identity.

ObjectReference atomic: An object of any kind.
  apiVersion string: Its API version.
  kind string: Its kind.
  namespace string: Its namespace.
  name string: Its name.
  uid string: Its UID.
  resourceVersion string: Its version.
  fieldPath string: Part of the object.

Service kind: A name and an address for a set of Pods.
  spec ServiceSpec: What the service should be.
  status ServiceStatus: What the service is now.

ServiceSpec: What a service should be.
  type string: ClusterIP, NodePort, LoadBalancer or ExternalName.
  selector {string} atomic: Labels of the Pods behind it.
  ports [ServicePort] by port,protocol: Its ports.
  clusterIP string: Its address; None for a service without one.
  clusterIPs [string]: Its addresses, by family.
  ipFamilies [string]: Families of its addresses.
  ipFamilyPolicy string: SingleStack, PreferDualStack or RequireDualStack.
  externalIPs [string]: More addresses that lead to it.
  externalName string: Name that it stands for, for ExternalName.
  externalTrafficPolicy string: Cluster or Local.
  internalTrafficPolicy string: Cluster or Local.
  sessionAffinity string: ClientIP or None.
  sessionAffinityConfig object: Settings of the affinity.
  loadBalancerIP string: Wanted address of the load balancer.
  loadBalancerClass string: Kind of the load balancer.
  loadBalancerSourceRanges [string]: Who may use the load balancer.
  allocateLoadBalancerNodePorts boolean: Whether a load balancer gets node ports.
  healthCheckNodePort int32: Port for health checks.
  publishNotReadyAddresses boolean: Whether Pods that are not ready count too.
  trafficDistribution string: Which endpoints are preferred.

ServicePort: A port of a service.
  name string: Its name.
  port! int32: Its number.
  protocol string = TCP: TCP, UDP or SCTP.
  targetPort intstr: Port of the Pods, by number or name.
  nodePort int32: Port of the nodes.
  appProtocol string: Protocol of the application.

ServiceStatus: What a service is now.
  loadBalancer object: State of the load balancer.
  conditions [Condition] by type: Aspects of the state.

Endpoints kind: The addresses behind a service.
  subsets [EndpointSubset]: Addresses and ports.

EndpointSubset: Addresses that have the same ports.
  addresses [EndpointAddress]: Addresses that are ready.
  notReadyAddresses [EndpointAddress]: Addresses that are not ready.
  ports [EndpointPort]: The ports.

EndpointAddress atomic: An address behind a service.
  ip! string: The address.
  hostname string: Its name.
  nodeName string: Node on which it is.
  targetRef ObjectReference: Object that has the address.

EndpointPort atomic: A port behind a service.
  name string: Its name.
  port! int32: Its number.
  protocol string: TCP, UDP or SCTP.
  appProtocol string: Protocol of the application.

Event kind: Something that happened to an object.
  involvedObject! ObjectReference: The object.
  reason string: What happened, in one word.
  message string: What happened, for people.
  source EventSource: Who reports it.
  firstTimestamp time: When it first happened.
  lastTimestamp time: When it last happened.
  count int32: How often it happened.
  type string: Normal or Warning.
  eventTime microtime: When it happened.
  series EventSeries: How it happened again and again.
  action string: What was done.
  related ObjectReference: Another object that has to do with it.
  reportingComponent string: Who reports it.
  reportingInstance string: Which instance reports it.

EventSource: Who reports an event.
  component string: The component.
  host string: The node.

EventSeries: An event that happens again and again.
  count int32: How often.
  lastObservedTime microtime: When it last happened.

PersistentVolumeClaim kind: A request for storage.
  spec PersistentVolumeClaimSpec: What is wanted.
  status PersistentVolumeClaimStatus: What was given.

PersistentVolumeClaimSpec: What storage is wanted.
  accessModes [string]: How it will be mounted.
  resources VolumeResourceRequirements: How much.
  storageClassName string: Class of the storage.
  volumeMode string: Filesystem or Block.
  volumeName string: The volume that was given.
  selector LabelSelector: Selects volumes.
  dataSource object: What the volume is filled with.
  dataSourceRef object: What the volume is filled with.
  volumeAttributesClassName string: Class of the volume's settings.

VolumeResourceRequirements: How much storage.
  requests {quantity}: At least.
  limits {quantity}: At most.

PersistentVolumeClaimStatus: What storage was given.
  phase string: Pending, Bound or Lost.
  accessModes [string]: How it can be mounted.
  capacity {quantity}: How much.
  conditions [StatusCondition] by type: Aspects of the state.
  allocatedResources {quantity}: How much was set aside.
  allocatedResourceStatuses {string}: State of a change of size.
  currentVolumeAttributesClassName string: Class of the volume's settings.
  modifyVolumeStatus object: State of a change of settings.
  healthStatus object: State of the volume.

PersistentVolume kind: A piece of storage.
  spec free: What it is.
  status free: Its state.

LimitRange kind: Limits of what objects of a namespace may ask for.
  spec LimitRangeSpec: The limits.

LimitRangeSpec: Limits of what objects of a namespace may ask for.
  limits! [LimitRangeItem]: The limits, one for each type.

LimitRangeItem: Limits for one type of object.
  type! string: Container, Pod or PersistentVolumeClaim.
  max {quantity}: The most that may be asked for.
  min {quantity}: The least that must be asked for.
  default {quantity}: The limits of containers that name none.
  defaultRequest {quantity}: The requests of containers that name none.
  maxLimitRequestRatio {quantity}: How often the request the limit may be.

ResourceQuota kind: Limits of what a namespace may use.
  spec ResourceQuotaSpec: The limits.
  status ResourceQuotaStatus: What is used.

ResourceQuotaSpec: Limits of what a namespace may use.
  hard {quantity}: The limits, by name.
  scopes [string]: What objects must be to be counted.
  scopeSelector ScopeSelector: What else they must be.

ScopeSelector: What objects must be to be counted.
  matchExpressions [ScopedResourceSelectorRequirement]: Conditions, all of which must hold.

ScopedResourceSelectorRequirement: A condition for objects to be counted.
  scopeName! string: What the condition is about.
  operator! string: In, NotIn, Exists or DoesNotExist.
  values [string]: Values for In and NotIn.

ResourceQuotaStatus: What a namespace uses.
  hard {quantity}: The limits in force.
  used {quantity}: What is used.
"""
