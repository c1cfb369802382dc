"""The built-in kinds of the other API groups. Notation: see `builtin_schemas`."""

from __future__ import annotations

from typing import Final

COORDINATION: Final = """
Lease kind: Who holds something, and until when.
  spec LeaseSpec: The lease.

LeaseSpec: Who holds something, and until when.
  holderIdentity string: The holder.
  leaseDurationSeconds int32: Seconds after the last renewal for which it is held.
  acquireTime microtime: When it was taken.
  renewTime microtime: When it was last renewed.
  leaseTransitions int32: How often it changed hands.
  strategy string: How holders are chosen.
  preferredHolder string: Who should take it next.
"""

DISCOVERY: Final = """
EndpointSlice kind: Some of the addresses behind a service.
  addressType! string: IPv4, IPv6 or FQDN.
  endpoints! [Endpoint]: The addresses.
  ports [EndpointPort]: The ports.

Endpoint: An address behind a service.
  addresses! [string] set: The addresses of one Pod.
  conditions object: Whether it is ready, serving, ending.
  hostname string: Its name.
  nodeName string: Node on which it is.
  targetRef ObjectReference: Object that has the address.
  zone string: Where it is.
  hints object: Who should use it.
  deprecatedTopology {string}: Not used any more.
"""

EVENTS: Final = """
Event kind: Something that happened to an object.
  regarding ObjectReference: The object.
  reason string: What happened, in one word.
  note string: What happened, for people.
  type string: Normal or Warning.
  eventTime! microtime: When it happened.
  series EventSeries: How it happened again and again.
  action string: What was done.
  related ObjectReference: Another object that has to do with it.
  reportingController string: Who reports it.
  reportingInstance string: Which instance reports it.
  deprecatedSource EventSource: Who reports it.
  deprecatedFirstTimestamp time: When it first happened.
  deprecatedLastTimestamp time: When it last happened.
  deprecatedCount int32: How often it happened.
"""

NETWORKING: Final = """
IPAddress kind: An address and the object it belongs to.
  spec IPAddressSpec: The address is its name.

IPAddressSpec: The object that an address belongs to.
  parentRef! ParentReference: The object.

NetworkPolicy kind: Which traffic reaches and leaves some Pods.
  spec NetworkPolicySpec: The Pods and the traffic.

NetworkPolicySpec: Which traffic reaches and leaves some Pods.
  podSelector LabelSelector: Selects the Pods; all of the namespace when empty.
  ingress [NetworkPolicyIngressRule]: Traffic that may reach them. What another policy allows may, too.
  egress [NetworkPolicyEgressRule]: Traffic that may leave them.
  policyTypes [string]: Ingress, Egress or both: the traffic that is refused unless a rule allows it.

NetworkPolicyIngressRule: Traffic that may reach Pods.
  ports [NetworkPolicyPort]: To which of their ports; all when empty.
  from [NetworkPolicyPeer]: From where; anywhere when empty.

NetworkPolicyEgressRule: Traffic that may leave Pods.
  ports [NetworkPolicyPort]: To which ports; all when empty.
  to [NetworkPolicyPeer]: Where to; anywhere when empty.

NetworkPolicyPort: A port or a range of ports.
  protocol string: TCP, UDP or SCTP.
  port intstr: The port, by number or by name; all of the protocol when absent.
  endPort int32: The last port of a range that begins with port.

NetworkPolicyPeer: The other end of traffic.
  podSelector LabelSelector: Pods, of the selected namespaces or of the policy's own.
  namespaceSelector LabelSelector: Namespaces.
  ipBlock IPBlock: Addresses. Cannot be combined with selectors.

IPBlock: A range of addresses.
  cidr! string: The range, as 192.168.1.0/24.
  except [string]: Smaller ranges inside of it that are not meant.

ParentReference: An object of any kind.
  group string: Its API group.
  resource! string: Its resource.
  namespace string: Its namespace.
  name! string: Its name.
"""

POLICY: Final = """
PodDisruptionBudget kind: How many of some Pods may be evicted at a time.
  spec PodDisruptionBudgetSpec: The Pods and the number.
  status PodDisruptionBudgetStatus: How many are there, and how many may be evicted now.

PodDisruptionBudgetSpec: How many of some Pods may be evicted at a time.
  minAvailable intstr: How many of them must stay available, as a number or in percent.
  selector LabelSelector replace: Selects the Pods.
  maxUnavailable intstr: How many of them may be unavailable. Cannot be combined with minAvailable.
  unhealthyPodEvictionPolicy string: IfHealthyBudget or AlwaysAllow: when a Pod that is not ready may be evicted.

PodDisruptionBudgetStatus: How many Pods are there, and how many may be evicted now.
  observedGeneration integer: The generation that this was found for.
  disruptedPods {time}: When evictions were granted of Pods that are still there.
  disruptionsAllowed! int32: How many Pods may be evicted now.
  currentHealthy! int32: How many are ready.
  desiredHealthy! int32: How many must stay ready.
  expectedPods! int32: How many there are to be.
  conditions [Condition] by type: Whether evictions are allowed, and why.
"""

APPS: Final = """
ControllerRevision kind: A state that a controller can go back to.
  data object: The state.
  revision! integer: Its number.
"""

STORAGE: Final = """
StorageClass kind: A way in which volumes are made.
  provisioner! string: Who makes them.
  parameters {string}: Settings of the provisioner.
  reclaimPolicy string: Delete or Retain.
  volumeBindingMode string: Immediate or WaitForFirstConsumer.
  allowVolumeExpansion boolean: Whether volumes can grow.
  mountOptions [string]: Options of the mount.
  allowedTopologies [object]: Where volumes can be.
"""

SCHEDULING: Final = """
PriorityClass kind: An importance with a name.
  value! int32: The importance.
  globalDefault boolean: Whether it is that of Pods that name none.
  description string: When to use it.
  preemptionPolicy string: PreemptLowerPriority or Never.
"""

RBAC: Final = """
ClusterRole kind: Rights in the whole cluster.
  rules [PolicyRule]: The rights.
  aggregationRule AggregationRule: Roles whose rights are gathered in this one.

AggregationRule: Roles whose rights are gathered.
  clusterRoleSelectors [LabelSelector]: Selects the roles.

Role kind: Rights in a namespace.
  rules [PolicyRule]: The rights.

PolicyRule: What may be done with what.
  verbs! [string]: What may be done.
  apiGroups [string]: API groups of the resources.
  resources [string]: Resources.
  resourceNames [string]: Names of objects; all when empty.
  nonResourceURLs [string]: Paths that are no resources.

ClusterRoleBinding kind: Who has rights in the whole cluster.
  subjects [Subject]: Who.
  roleRef! RoleRef: The rights.

RoleBinding kind: Who has rights in a namespace.
  subjects [Subject]: Who.
  roleRef! RoleRef: The rights.

Subject atomic: A user, a group or a service account.
  kind! string: User, Group or ServiceAccount.
  apiGroup string: API group of the kind.
  name! string: Its name.
  namespace string: Its namespace.

RoleRef atomic: A role.
  apiGroup! string: API group of the role.
  kind! string: Role or ClusterRole.
  name! string: Its name.
"""

CERTIFICATES: Final = """
CertificateSigningRequest kind: Somebody asks for a certificate.
  spec! CertificateSigningRequestSpec: What is asked for, and by whom.
  status CertificateSigningRequestStatus: What became of it.

CertificateSigningRequestSpec: What is asked for, and by whom. Cannot be changed.
  request! bytes: The request in PEM.
  signerName! string: Who is to sign it.
  expirationSeconds int32: Seconds for which the certificate should be good; the signer may give fewer.
  usages [string]: What the key is for.
  username string: Who asks. Set by the server.
  uid string: Identity of who asks. Set by the server.
  groups [string]: Groups of who asks. Set by the server.
  extra free: More about who asks. Set by the server.

CertificateSigningRequestStatus: What became of a request.
  conditions [CertificateSigningRequestCondition] by type: Whether it was approved, denied, or has failed.
  certificate bytes: The certificate in PEM.

CertificateSigningRequestCondition: One thing that became of a request.
  type! string: Approved, Denied or Failed.
  status! string: True.
  reason string: Why, in one word.
  message string: Why, for people.
  lastUpdateTime time: When it was last written.
  lastTransitionTime time: When it came.
"""

_WEBHOOK: Final = """
  name! string: Name, a domain with three parts or more.
  clientConfig! WebhookClientConfig: Where the webhook is.
  rules [RuleWithOperations]: Which requests are sent to it.
  failurePolicy string: Ignore or Fail.
  matchPolicy string: Exact or Equivalent.
  namespaceSelector LabelSelector: Selects namespaces.
  objectSelector LabelSelector: Selects objects.
  sideEffects! string: None or NoneOnDryRun.
  timeoutSeconds int32: Seconds to wait for its answer.
  admissionReviewVersions! [string]: Versions of reviews that it understands.
  matchConditions [object] by name: Conditions on requests.
"""

ADMISSION: Final = f"""
MutatingWebhookConfiguration kind: Webhooks that may change requests.
  webhooks [MutatingWebhook] by name: The webhooks.

ValidatingWebhookConfiguration kind: Webhooks that may refuse requests.
  webhooks [ValidatingWebhook] by name: The webhooks.

MutatingWebhook: A webhook that may change requests.
{_WEBHOOK}  reinvocationPolicy string: Never or IfNeeded.

ValidatingWebhook: A webhook that may refuse requests.
{_WEBHOOK}
WebhookClientConfig: Where a webhook is.
  url string: Its URL.
  service ServiceReference: Its service.
  caBundle bytes: Certificates that it is checked with.

ServiceReference: A service.
  namespace! string: Its namespace.
  name! string: Its name.
  path string: Path of the request.
  port int32: Port of the service.

RuleWithOperations: Which requests are meant.
  operations [string]: CREATE, UPDATE, DELETE, CONNECT or *.
  apiGroups [string]: API groups.
  apiVersions [string]: API versions.
  resources [string]: Resources and subresources.
  scope string: Cluster, Namespaced or *.
"""

APIEXTENSIONS: Final = """
CustomResourceDefinition kind: A kind that the server did not know before.
  spec! CustomResourceDefinitionSpec: The kind.
  status CustomResourceDefinitionStatus: Whether it is served.

CustomResourceDefinitionSpec: A kind.
  group! string: Its API group.
  names! CustomResourceDefinitionNames: Its names.
  scope! string: Cluster or Namespaced.
  versions! [CustomResourceDefinitionVersion]: Its versions.
  conversion object: How versions are converted.
  preserveUnknownFields boolean: Must be false.

CustomResourceDefinitionNames: Names of a kind.
  plural! string: Name in URLs.
  singular string: Name for one object.
  shortNames [string]: Names that are quick to type.
  kind! string: Name in manifests.
  listKind string: Name of lists.
  categories [string]: Groups of kinds that it belongs to, as all.

CustomResourceDefinitionVersion: A version of a kind.
  name! string: Its name.
  served! boolean: Whether it is served.
  storage! boolean: Whether objects are stored in it.
  deprecated boolean: Whether its users are warned.
  deprecationWarning string: The warning.
  schema free: Its schema.
  subresources object: Whether it has a status and a scale.
  additionalPrinterColumns [object]: Columns of its tables.
  selectableFields [object]: Fields by which objects can be selected.

CustomResourceDefinitionStatus: Whether a kind is served.
  conditions [CustomResourceDefinitionCondition] by type: Aspects of the state.
  acceptedNames CustomResourceDefinitionNames: The names that it was given.
  storedVersions [string]: Versions in which objects were ever stored.
  observedGeneration integer: The generation that this was found for.

CustomResourceDefinitionCondition: One aspect of a kind's state.
  type! string: The aspect.
  status! string: True, False or Unknown.
  lastTransitionTime time: When the status last changed.
  reason string: Why, in one word.
  message string: Why, for people.
  observedGeneration integer: The generation that this was found for.
"""

APIREGISTRATION: Final = """
APIService kind: A group and version that another server answers for.
  spec APIServiceSpec: The group and version, and the server.
  status APIServiceStatus: Whether it can be reached.

APIServiceSpec: A group and version, and the server that answers for it.
  group string: The group.
  version string: The version.
  service APIServiceReference: The server; none when it is answered here.
  caBundle bytes: Certificates that the server is checked with.
  insecureSkipTLSVerify boolean: Whether the server is not checked.
  groupPriorityMinimum! int32: Rank of the group.
  versionPriority! int32: Rank of the version.

APIServiceReference: A service.
  namespace string: Its namespace.
  name string: Its name.
  port int32: Its port.

APIServiceStatus: Whether a server can be reached.
  conditions [APIServiceCondition] by type: Aspects of the state.

APIServiceCondition: One aspect of a server's state.
  type! string: The aspect.
  status! string: True, False or Unknown.
  lastTransitionTime time: When the status last changed.
  reason string: Why, in one word.
  message string: Why, for people.
"""

METRICS: Final = """
NodeMetrics kind: What a node uses now.
  timestamp! time: Until when it was measured.
  window! string: For how long.
  usage! {quantity}: CPU and memory.

PodMetrics kind: What a Pod uses now.
  timestamp! time: Until when it was measured.
  window! string: For how long.
  containers! [ContainerMetrics] by name: What its containers use.

ContainerMetrics: What a container uses.
  name! string: The container, or all of a Pod's that are measured together.
  usage! {quantity}: CPU and memory.
"""
