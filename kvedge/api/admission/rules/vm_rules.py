"""Rules for what a VirtualMachine has beside its template, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, required_cause, unsupported_cause
from kvedge.resources.disks.data_volume_checks import data_volume_problems
from kvedge.resources.disks.moved_volumes import MIGRATION, REPLACEMENT
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.vm import VirtualMachine

# The last one is of a VM whose guest comes from another box.
RUN_STRATEGIES: Final = ("Always", "RerunOnFailure", "Manual", "Halted", "Once", "WaitAsReceiver")
RUNNING_IS_DEPRECATED: Final = "spec.running is deprecated, please use spec.runStrategy instead."
# libvirt keeps the domain NAMESPACE_NAME in files of that name with .xml.new behind it, or -swtpm.log for a TPM, and a
# file's name has at most 255 bytes. KubeVirt takes a longer one, whose guest never starts.
_LONGEST_DOMAIN: Final = 255 - len("_-swtpm.log")
# As many as a VM may have volumes.
_MOST_TEMPLATES: Final = 256


def run_strategy_is_given(vm: VirtualMachine) -> Iterator[Cause]:
    """Exactly one of running and runStrategy."""
    at = Field("spec")
    if vm.spec.running is not None and vm.spec.run_strategy:
        text = (
            "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy "
            "instead"
        )
        yield Cause(at.at("running"), text)
    elif vm.spec.running is None and not vm.spec.run_strategy:
        yield required_cause(at.at("runStrategy"), "RunStrategy must be specified")
    elif vm.spec.run_strategy and vm.spec.run_strategy not in RUN_STRATEGIES:
        yield unsupported_cause(at.at("runStrategy"), f"Invalid RunStrategy ({vm.spec.run_strategy})")


def volumes_strategy_is_known(vm: VirtualMachine) -> Iterator[Cause]:
    """How claims of a running VM change: at the next start, or with the guest's data."""
    given, at = vm.spec.update_volumes_strategy, Field("spec").at("updateVolumesStrategy")
    if given and given not in (REPLACEMENT, MIGRATION):
        yield unsupported_cause(
            at, f"{at}: updateVolumes strategy not recognized: {given}; use {REPLACEMENT} or {MIGRATION}"
        )


def template_is_given(vm: VirtualMachine) -> Iterator[Cause]:
    """Without a template there is nothing to run."""
    if vm.spec.template is None:
        yield required_cause("spec.template", "missing virtual machine template.")


def longest_name_in(namespace: str) -> int:
    """How many characters the name of a VM may have there."""
    return _LONGEST_DOMAIN - len(namespace)


def name_fits(vm: VirtualMachine) -> Iterator[Cause]:
    """The name becomes a file's, together with its namespace's. What becomes a label's value is cut."""
    most = longest_name_in(vm.metadata.namespace)
    if len(vm.metadata.name) > most:
        yield Cause("metadata.name", f"metadata.name: must be no more than {most} characters in this namespace")


def data_volume_templates_are_complete(vm: VirtualMachine) -> Iterator[Cause]:
    """Each has a name of its own and a spec that can be filled, and some volume uses it."""
    at = Field("spec").at("dataVolumeTemplates")
    used = set()
    if vm.spec.template is not None:
        used = {name for volume in vm.spec.template.spec.volumes if (name := claim_of(volume)) is not None}
    seen: set[str] = set()
    for index, template in enumerate(vm.spec.data_volume_templates[:_MOST_TEMPLATES]):
        here, name = at.item(index), template.metadata.name
        if not name:
            yield required_cause(
                here.at("name"), f"'name' field must not be empty for DataVolumeTemplate entry {here}."
            )
        elif name in seen:
            yield Cause(here.at("metadata", "name"), f"{here}: another DataVolumeTemplate is called {name} already")
        elif name not in used:
            text = f"DataVolumeTemplate entry {here} must be referenced in the VMI template's 'volumes' list"
            yield Cause(here, text)
        seen.add(name)
        for path, text in data_volume_problems(template.spec):
            yield Cause(here.at("spec", path), text)
    if len(vm.spec.data_volume_templates) > _MOST_TEMPLATES:
        yield Cause(at, f"{at} list exceeds the {_MOST_TEMPLATES} element limit in length")


def warnings(vm: VirtualMachine) -> list[str]:
    """What is accepted and should be written otherwise."""
    return [RUNNING_IS_DEPRECATED] if vm.spec.running is not None else []


RULES: Final = (
    run_strategy_is_given,
    template_is_given,
    volumes_strategy_is_known,
    name_fits,
    data_volume_templates_are_complete,
)
