"""Network binding plugins, from the KubeVirt object to the configuration in force.

Part of configuration_reading.py. Pure. A plugin that cannot be used is a finding and counts as not there: an interface
that names it is refused, as one of a plugin that nobody has configured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.configuration.configuration_checks import Checks
from kvedge.resources.types.kubevirt_configuration import BindingOverhead, BindingPluginConfiguration
from kvedge.resources.values.quantities import Quantity

AT: Final = "spec.configuration.network.binding"
# The guest on a bridge with the Pod's NIC, without a DHCP server of ours; the link itself, whatever has made it.
MANAGED_TAP: Final = "managedTap"
TAP: Final = "tap"


def binding_plugins(
    given: Mapping[str, BindingPluginConfiguration], checks: Checks
) -> Iterator[tuple[str, BindingPlugin]]:
    """The plugins that VMs can use, by their names."""
    for name, plugin in given.items():
        at = f"{AT}[{name}]"
        if _is_possible(plugin, at, checks):
            overhead = plugin.compute_resource_overhead or BindingOverhead()
            yield (
                name,
                BindingPlugin(
                    plugin.domain_attachment_type,
                    plugin.network_attachment_definition,
                    dict(_amounts(overhead.requests, f"{at}.computeResourceOverhead.requests", checks)),
                    dict(_amounts(overhead.limits, f"{at}.computeResourceOverhead.limits", checks)),
                ),
            )


def live_plugins(plugins: Mapping[str, BindingPlugin]) -> frozenset[str]:
    """The plugins whose NICs come and go while a guest runs: whatever joins such a guest is a link."""
    return frozenset(name for name, plugin in plugins.items() if plugin.attachment in (TAP, MANAGED_TAP))


def _is_possible(plugin: BindingPluginConfiguration, at: str, checks: Checks) -> bool:
    if plugin.sidecar_image:
        checks.note_invalid(
            f"{at}.sidecarImage",
            f"sidecars are not supported by this release; use one of domainAttachmentType {TAP} or {MANAGED_TAP}",
        )
        return False
    if plugin.downward_api:
        checks.note_invalid(f"{at}.downwardAPI", "no launcher is told of devices by this release; remove it")
        return False
    if plugin.domain_attachment_type not in (TAP, MANAGED_TAP):
        shown = plugin.domain_attachment_type[:40]
        checks.note_invalid(
            f"{at}.domainAttachmentType", f"{shown!r} is not supported by this release; use tap or managedTap"
        )
        return False
    return True


def _amounts(given: Mapping[str, Quantity], at: str, checks: Checks) -> Iterator[tuple[str, Quantity]]:
    for resource, value in given.items():
        if checks.amount(f"{at}[{resource}]", value, above_zero=False) is not None:
            yield resource, value
