"""Pods: the largest of the built-in types. Notation: see `builtin_schemas`.

Parts that no part of kvedge looks at (cloud volumes, Windows, device claims) are `object`: named, but not described
inside.
"""

from __future__ import annotations

from typing import Final

# Shared by containers, init containers and ephemeral containers.
_CONTAINER: Final = """
  name! string: Name, unique among the Pod's containers.
  image string: Image that the container runs.
  imagePullPolicy string: Always, IfNotPresent or Never.
  command [string]: Program and first arguments; the image's own when empty.
  args [string]: Arguments of the program.
  workingDir string: Directory in which the program starts.
  ports [ContainerPort] by containerPort,protocol: Ports that the program listens on, for information.
  env [EnvVar] by name: Environment variables.
  envFrom [EnvFromSource]: Sources whose keys all become environment variables.
  resources ResourceRequirements: What the container needs, and the most it may use.
  resizePolicy [object]: How the container takes a change of its resources.
  restartPolicy string: Always makes an init container run beside the others.
  restartPolicyRules [object]: When to restart depending on the exit code.
  volumeMounts [VolumeMount] by mountPath: Volumes as directories.
  volumeDevices [VolumeDevice] by devicePath: Volumes as block devices.
  livenessProbe Probe: The container is restarted when this fails.
  readinessProbe Probe: The container is not ready while this fails.
  startupProbe Probe: The other probes wait until this succeeds.
  lifecycle Lifecycle: What to do after the start and before the end.
  terminationMessagePath string: File whose content is kept when the container ends.
  terminationMessagePolicy string: File, or FallbackToLogsOnError.
  securityContext SecurityContext: Privileges and identity of the container.
  stdin boolean: Whether the container has a standard input.
  stdinOnce boolean: Whether the standard input ends with its first client.
  tty boolean: Whether the container has a terminal.
"""

POD: Final = f"""
Pod kind: A group of containers that share network and volumes and run on one node.
  spec PodSpec: What the Pod should be.
  status PodStatus: What the Pod is now.

PodSpec: What a Pod should be.
  containers! [Container] by name: Containers of the Pod, at least one.
  initContainers [Container] by name: Containers that run one after the other before the others start.
  ephemeralContainers [EphemeralContainer] by name: Containers added to a running Pod for debugging.
  volumes [Volume] by name retain: Volumes that containers can mount.
  restartPolicy string: Always, OnFailure or Never.
  terminationGracePeriodSeconds integer: Seconds between asking the Pod to end and killing it.
  activeDeadlineSeconds integer: Seconds after which the Pod is ended as failed.
  dnsPolicy string: ClusterFirst, ClusterFirstWithHostNet, Default or None.
  dnsConfig PodDNSConfig: DNS settings beyond the policy.
  nodeSelector {{string}} atomic: Labels that the node must have.
  nodeName string: Node on which the Pod runs, once there is one.
  affinity Affinity: Preferences and conditions for the choice of the node.
  tolerations [Toleration]: Taints of nodes that do not keep this Pod away.
  topologySpreadConstraints [TopologySpreadConstraint] by topologyKey,whenUnsatisfiable: How to spread over nodes.
  schedulerName string: Scheduler that chooses the node.
  schedulingGates [PodSchedulingGate] by name: Reasons not to choose a node yet.
  schedulingGroup object: Group of Pods that are scheduled together.
  evictionResponders [object]: Who is asked before the Pod is evicted.
  priorityClassName string: Class from which the priority comes.
  priority int32: Importance of the Pod; higher is more important.
  preemptionPolicy string: PreemptLowerPriority or Never.
  serviceAccountName string: Service account that the Pod runs as.
  serviceAccount string: Older name of serviceAccountName.
  automountServiceAccountToken boolean: Whether containers get the token of the service account.
  hostNetwork boolean: Whether the Pod uses the node's network.
  hostPID boolean: Whether the Pod sees the node's processes.
  hostIPC boolean: Whether the Pod shares the node's IPC.
  hostUsers boolean: Whether the Pod uses the node's user namespace.
  shareProcessNamespace boolean: Whether the containers see each other's processes.
  securityContext PodSecurityContext: Privileges and identity of all containers.
  imagePullSecrets [LocalObjectReference] by name: Secrets with credentials for registries.
  hostname string: Host name of the Pod.
  hostnameOverride string: Host name of the Pod, used as it is.
  subdomain string: Domain of the host name.
  setHostnameAsFQDN boolean: Whether the host name is fully qualified inside the Pod.
  hostAliases [HostAlias] by ip: Lines for the hosts file.
  readinessGates [PodReadinessGate]: Conditions that must hold before the Pod is ready.
  runtimeClassName string: Class of the container runtime.
  enableServiceLinks boolean: Whether services become environment variables.
  overhead {{quantity}}: Resources that the Pod needs beyond those of its containers.
  resources ResourceRequirements: What the containers need and may use together.
  resourceClaims [PodResourceClaim] by name retain: Devices that must be there before the Pod starts.
  os PodOS: Operating system of the containers.

Container: A program that runs in a Pod.
{_CONTAINER}
EphemeralContainer: A container added to a running Pod for debugging.
{_CONTAINER}  targetContainerName string: Container whose namespaces are shared.

ContainerPort: A port that a container listens on.
  name string: Name of the port, for services.
  containerPort! int32: Number of the port.
  hostPort int32: Port of the node that leads to it.
  hostIP string: Address of the node on which the port is bound.
  protocol string = TCP: TCP, UDP or SCTP.

EnvVar: An environment variable.
  name! string: Name of the variable.
  value string: Its value; $(NAME) stands for another variable.
  valueFrom EnvVarSource: Where the value comes from.

EnvVarSource: Where the value of an environment variable comes from.
  fieldRef ObjectFieldSelector: A field of the Pod.
  resourceFieldRef ResourceFieldSelector: A resource of the container.
  configMapKeyRef KeySelector: A key of a ConfigMap.
  secretKeyRef KeySelector: A key of a Secret.
  fileKeyRef object: A key of a file in a volume.

KeySelector atomic: One key of a ConfigMap or Secret.
  name string: Name of the ConfigMap or Secret.
  key! string: The key.
  optional boolean: Whether it may be absent.

ObjectFieldSelector atomic: A field of the Pod.
  apiVersion string: Version in which the path is written.
  fieldPath! string: Path of the field.

ResourceFieldSelector atomic: A resource of a container.
  containerName string: The container.
  resource! string: The resource, as limits.cpu.
  divisor quantity: Unit of the output.

EnvFromSource: A ConfigMap or Secret whose keys all become variables.
  prefix string: Put before each key.
  configMapRef EnvSource: The ConfigMap.
  secretRef EnvSource: The Secret.

EnvSource: A ConfigMap or Secret.
  name string: Its name.
  optional boolean: Whether it may be absent.

ResourceRequirements: What is needed, and the most that may be used.
  requests {{quantity}}: What is needed at least.
  limits {{quantity}}: The most that may be used.
  claims [ResourceClaim] by name: Devices that are used.

ResourceClaim: A device of the Pod that a container uses.
  name! string: Name of the Pod's claim.
  request string: Part of the claim.

VolumeMount: A volume as a directory of a container.
  name! string: Name of the volume.
  mountPath! string: Directory in the container.
  subPath string: Path inside the volume.
  subPathExpr string: Path inside the volume, with variables.
  readOnly boolean: Whether it cannot be written.
  recursiveReadOnly string: Whether mounts beneath it cannot be written either.
  mountPropagation string: None, HostToContainer or Bidirectional.
  bindMountOptions [string]: Options of the mount.

VolumeDevice: A volume as a block device of a container.
  name! string: Name of the volume.
  devicePath! string: Path of the device in the container.

Probe: A question asked of a container again and again.
  exec ExecAction: A command that must exit with 0.
  httpGet HTTPGetAction: A page that must answer.
  tcpSocket TCPSocketAction: A port that must accept connections.
  grpc object: A health service that must answer.
  initialDelaySeconds int32: Seconds before the first question.
  timeoutSeconds int32: Seconds to wait for the answer.
  periodSeconds int32: Seconds between questions.
  successThreshold int32: Successes in a row that count as success.
  failureThreshold int32: Failures in a row that count as failure.
  terminationGracePeriodSeconds integer: Seconds the container gets to end when the probe failed.

ExecAction: A command in the container.
  command [string]: Program and arguments.

HTTPGetAction: An HTTP request.
  path string: Path of the page.
  port! intstr: Port, by number or name.
  host string: Host; the Pod when empty.
  scheme string: HTTP or HTTPS.
  protocol string: Version of the protocol.
  httpHeaders [HTTPHeader]: Headers.

HTTPHeader: A header of an HTTP request.
  name! string: Name of the header.
  value! string: Value of the header.

TCPSocketAction: A TCP connection.
  port! intstr: Port, by number or name.
  host string: Host; the Pod when empty.

Lifecycle: What to do after the start and before the end of a container.
  postStart LifecycleHandler: After the start.
  preStop LifecycleHandler: Before the end.
  stopSignal string: Signal that ends the container.

LifecycleHandler: One of several things to do.
  exec ExecAction: Run a command.
  httpGet HTTPGetAction: Send a request.
  tcpSocket TCPSocketAction: Not used any more.
  sleep object: Wait for some seconds.

SecurityContext: Privileges and identity of a container.
  privileged boolean: Whether the container may do what root on the node may.
  runAsUser integer: User ID of the program.
  runAsGroup integer: Group ID of the program.
  runAsNonRoot boolean: Whether the container must not run as root.
  readOnlyRootFilesystem boolean: Whether the root file system cannot be written.
  allowPrivilegeEscalation boolean: Whether a process may gain more privileges than its parent.
  capabilities Capabilities: Capabilities to add and to drop.
  procMount string: How /proc is mounted.
  seLinuxOptions SELinuxOptions: SELinux label.
  seccompProfile SecurityProfile: Filter of system calls.
  appArmorProfile SecurityProfile: AppArmor profile.
  windowsOptions object: Settings for Windows.

Capabilities: Capabilities to add and to drop.
  add [string]: Capabilities to add.
  drop [string]: Capabilities to drop.

SELinuxOptions: Parts of an SELinux label.
  user string: User of the label.
  role string: Role of the label.
  type string: Type of the label.
  level string: Level of the label.

SecurityProfile: A profile that confines processes.
  type! string: RuntimeDefault, Unconfined or Localhost.
  localhostProfile string: Profile on the node, for Localhost.

PodSecurityContext: Privileges and identity of all containers of a Pod.
  runAsUser integer: User ID of the programs.
  runAsGroup integer: Group ID of the programs.
  runAsNonRoot boolean: Whether no container may run as root.
  fsGroup integer: Group that owns the volumes.
  fsGroupChangePolicy string: OnRootMismatch or Always.
  supplementalGroups [integer]: More groups of the programs.
  supplementalGroupsPolicy string: Merge or Strict.
  sysctls [Sysctl]: Kernel settings of the Pod's namespaces.
  seLinuxOptions SELinuxOptions: SELinux label.
  seLinuxChangePolicy string: MountOption or Recursive.
  seccompProfile SecurityProfile: Filter of system calls.
  appArmorProfile SecurityProfile: AppArmor profile.
  windowsOptions object: Settings for Windows.

Sysctl: A kernel setting.
  name! string: Name of the setting.
  value! string: Its value.

PodDNSConfig: DNS settings of a Pod.
  nameservers [string]: Addresses of name servers.
  searches [string]: Domains that are tried for short names.
  options [PodDNSConfigOption]: Options of the resolver.

PodDNSConfigOption: An option of the resolver.
  name string: Name of the option.
  value string: Its value.

Affinity: Preferences and conditions for the choice of the node.
  nodeAffinity NodeAffinity: What the node must be like.
  podAffinity PodAffinity: Pods to be near to.
  podAntiAffinity PodAffinity: Pods to stay away from.

NodeAffinity: What the node must be like.
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector: Conditions.
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]: Preferences.

NodeSelector atomic: Conditions on a node, one of which must hold.
  nodeSelectorTerms! [NodeSelectorTerm]: The conditions.

NodeSelectorTerm atomic: Requirements that must all hold.
  matchExpressions [NodeSelectorRequirement]: Requirements on labels.
  matchFields [NodeSelectorRequirement]: Requirements on fields.

NodeSelectorRequirement: A requirement on one label or field.
  key! string: The label or field.
  operator! string: In, NotIn, Exists, DoesNotExist, Gt or Lt.
  values [string]: The values.

PreferredSchedulingTerm: A preference and its weight.
  weight! int32: From 1 to 100.
  preference! NodeSelectorTerm: The preference.

PodAffinity: Where other Pods are, or are not.
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm]: Conditions.
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]: Preferences.

PodAffinityTerm: Pods, and what counts as the same place.
  labelSelector LabelSelector: Selects the Pods.
  namespaceSelector LabelSelector: Selects the namespaces of the Pods.
  namespaces [string]: Namespaces of the Pods.
  topologyKey! string: Label whose value is the place.
  matchLabelKeys [string]: Labels whose values must be those of this Pod.
  mismatchLabelKeys [string]: Labels whose values must not be those of this Pod.

WeightedPodAffinityTerm: A preference and its weight.
  weight! int32: From 1 to 100.
  podAffinityTerm! PodAffinityTerm: The preference.

Toleration: A taint that does not keep the Pod away.
  key string: Key of the taint; any when empty.
  operator string: Exists or Equal.
  value string: Value of the taint.
  effect string: NoSchedule, PreferNoSchedule or NoExecute; any when empty.
  tolerationSeconds integer: Seconds the Pod may stay.

TopologySpreadConstraint: How to spread Pods over places.
  topologyKey! string: Label whose value is the place.
  maxSkew! int32: Largest difference between two places.
  minDomains int32: Least number of places.
  whenUnsatisfiable! string: DoNotSchedule or ScheduleAnyway.
  labelSelector LabelSelector: Selects the Pods.
  matchLabelKeys [string]: Labels whose values must be those of this Pod.
  nodeAffinityPolicy string: Honor or Ignore.
  nodeTaintsPolicy string: Honor or Ignore.

PodSchedulingGate: A reason not to choose a node yet.
  name! string: Name of the gate.

PodReadinessGate: A condition that must hold before the Pod is ready.
  conditionType! string: Type of the condition.

HostAlias: A line of the hosts file.
  ip! string: The address.
  hostnames [string]: The names.

PodOS: Operating system of the containers.
  name! string: linux or windows.

PodResourceClaim: A device of the Pod.
  name! string: Name of the claim in the Pod.
  resourceClaimName string: Name of the claim object.
  resourceClaimTemplateName string: Name of the template of the claim.

LocalObjectReference atomic: An object of the same namespace.
  name string: Its name.

Volume: A directory or device that containers of the Pod can use.
  name! string: Name, unique in the Pod.
  emptyDir EmptyDirVolumeSource: An empty directory that lives as long as the Pod.
  hostPath HostPathVolumeSource: A path of the node.
  configMap ConfigMapVolumeSource: Keys of a ConfigMap as files.
  secret SecretVolumeSource: Keys of a Secret as files.
  downwardAPI DownwardAPIVolumeSource: Fields of the Pod as files.
  projected ProjectedVolumeSource: Several sources in one directory.
  persistentVolumeClaim PersistentVolumeClaimVolumeSource: A claimed volume.
  image ImageVolumeSource: The content of an image.
  csi object: A volume of a driver.
  ephemeral object: A claim that lives as long as the Pod.
  nfs object: A directory of an NFS server.
  iscsi object: A disk of an iSCSI target.
  awsElasticBlockStore object: A disk of a cloud.
  azureDisk object: A disk of a cloud.
  azureFile object: A share of a cloud.
  cephfs object: A directory of a Ceph cluster.
  cinder object: A disk of a cloud.
  fc object: A Fibre Channel disk.
  flexVolume object: A volume of a driver of the older kind.
  flocker object: Not used any more.
  gcePersistentDisk object: A disk of a cloud.
  gitRepo object: Not used any more.
  glusterfs object: A GlusterFS volume.
  photonPersistentDisk object: A disk of a cloud.
  portworxVolume object: A Portworx volume.
  quobyte object: A Quobyte volume.
  rbd object: A disk of a Ceph cluster.
  scaleIO object: A ScaleIO volume.
  storageos object: A StorageOS volume.
  vsphereVolume object: A disk of a cloud.

EmptyDirVolumeSource: An empty directory that lives as long as the Pod.
  medium string: Memory for a directory in memory.
  sizeLimit quantity: The most it may hold.
  mode int32: Permissions of the directory.

HostPathVolumeSource: A path of the node.
  path! string: The path.
  type string: What must be there, as Directory, File or Socket.

ConfigMapVolumeSource: Keys of a ConfigMap as files.
  name string: Name of the ConfigMap.
  items [KeyToPath]: The keys; all when empty.
  defaultMode int32: Permissions of the files.
  defaultUser integer: Owner of the files.
  optional boolean: Whether it may be absent.

SecretVolumeSource: Keys of a Secret as files.
  secretName string: Name of the Secret.
  items [KeyToPath]: The keys; all when empty.
  defaultMode int32: Permissions of the files.
  defaultUser integer: Owner of the files.
  optional boolean: Whether it may be absent.

KeyToPath: A key as a file.
  key! string: The key.
  path! string: Path of the file in the volume.
  mode int32: Permissions of the file.
  user integer: Owner of the file.

DownwardAPIVolumeSource: Fields of the Pod as files.
  items [object]: The fields.
  defaultMode int32: Permissions of the files.
  defaultUser integer: Owner of the files.

ProjectedVolumeSource: Several sources in one directory.
  sources [object]: The sources.
  defaultMode int32: Permissions of the files.
  defaultUser integer: Owner of the files.

PersistentVolumeClaimVolumeSource: A claimed volume.
  claimName! string: Name of the claim.
  readOnly boolean: Whether it cannot be written.

ImageVolumeSource: The content of an image.
  reference string: The image.
  pullPolicy string: Always, IfNotPresent or Never.
"""
