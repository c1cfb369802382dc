"""The subject of a rule: one VMI spec, of a VMI or of a template, with its metadata and the cluster.

Made by admission_plan.py, read by every `*_rules` file. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.runtime.architecture import host_architecture


class Cluster(Struct, frozen=True):
    """Facts for all VMs: the architecture of one that names none, and the configuration in force."""

    architecture: str = field(default_factory=host_architecture)
    configuration: Configuration = DEFAULTS
    # Whether Kubernetes gives devices to claims (DRA): one box does not.
    allocates_claims: bool = True

    def with_configuration(self, configuration: Configuration) -> Cluster:
        """The same cluster under another configuration, which may name an architecture of its own."""
        architecture = configuration.default_architecture or self.architecture
        return replace(self, architecture=architecture, configuration=configuration)

    @property
    def machines(self) -> Mapping[str, tuple[str, ...]]:
        """The machines that a VM may ask for, by architecture."""
        return self.configuration.machines

    def allows_machine(self, architecture: str, machine: str) -> bool:
        """Whether a VM of that architecture may be that machine."""
        return self.configuration.allows_machine(architecture, machine)


class Subject(Struct, frozen=True):
    """A VMI's spec at the path `at`; `metadata` is the VMI's, or that of the template it is made from."""

    spec: VirtualMachineInstanceSpec
    metadata: ObjectMeta
    at: Field
    metadata_at: Field
    cluster: Cluster = field(default_factory=Cluster)
    # Whether one of kvedge's roles writes it, and not a user.
    by_role: bool = False
    # Of a VM or a set of VMIs: presets may still add to what is made of it.
    is_template: bool = False

    @property
    def domain_at(self) -> Field:
        """The path of the domain."""
        return self.at.at("domain")

    @property
    def devices_at(self) -> Field:
        """The path of the devices."""
        return self.at.at("domain", "devices")

    @property
    def architecture(self) -> str:
        """The architecture that the VM will have."""
        return self.spec.architecture or self.cluster.architecture


Rule = Callable[[Subject], Iterator[Cause]]
