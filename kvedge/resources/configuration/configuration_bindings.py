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
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.hook_sidecars import wants_hooks
from kvedge.resources.values.quantities import Quantity

AT: Final = "spec.configuration.network.binding"
# The guest on a bridge with the Pod's NIC, without a DHCP server of ours; the link itself, whatever has made it.
MANAGED_TAP: Final = "managedTap"
TAP: Final = "tap"
# The plugin's sidecar puts the whole interface into the guest's domain.
BY_SIDECAR: Final = ""
# The one value of downwardAPI, and the one method of migration that has a name.
DEVICE_INFO: Final = "device-info"
LINK_REFRESH: Final = "link-refresh"


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
                    sidecar_image=plugin.sidecar_image,
                    tells_devices=plugin.downward_api == DEVICE_INFO,
                    migrates=plugin.migration is not None,
                    refreshes_link=plugin.migration is not None and plugin.migration.method == LINK_REFRESH,
                ),
            )


def live_plugins(plugins: Mapping[str, BindingPlugin]) -> frozenset[str]:
    """The plugins whose NICs come and go while a guest runs: whatever joins such a guest is a link."""
    return frozenset(name for name, plugin in plugins.items() if plugin.attachment in (TAP, MANAGED_TAP))


def plugins_of(vmi: VirtualMachineInstance, plugins: Mapping[str, BindingPlugin]) -> dict[str, BindingPlugin]:
    """The plugins of a VMI's interfaces, each once and by its name; those that nobody has configured are left out."""
    named = (nic.binding.name for nic in vmi.spec.domain.devices.interfaces if nic.binding is not None)
    return {name: plugins[name] for name in named if name in plugins}


def asks_sidecars(vmi: VirtualMachineInstance, plugins: Mapping[str, BindingPlugin]) -> bool:
    """Whether sidecars, of plugins or of the VMI's own, are asked about its domain."""
    return wants_hooks(vmi.metadata.annotations) or any(
        plugin.sidecar_image for plugin in plugins_of(vmi, plugins).values()
    )


def _is_possible(plugin: BindingPluginConfiguration, at: str, checks: Checks) -> bool:
    if plugin.downward_api not in ("", DEVICE_INFO):
        checks.note_invalid(f"{at}.downwardAPI", f"{plugin.downward_api[:40]!r} is not known; use {DEVICE_INFO}")
        return False
    if plugin.migration is not None and plugin.migration.method not in (None, "", LINK_REFRESH):
        shown = plugin.migration.method[:40]
        checks.note_invalid(f"{at}.migration.method", f"{shown!r} is not known; use {LINK_REFRESH}, or none")
        return False
    attachment = plugin.domain_attachment_type
    if attachment in (TAP, MANAGED_TAP) or (attachment == BY_SIDECAR and plugin.sidecar_image):
        return True
    shown = attachment[:40]
    checks.note_invalid(
        f"{at}.domainAttachmentType",
        f"{shown!r} is not supported by this release; use tap or managedTap, or leave it empty and name a sidecarImage",
    )
    return False


def _amounts(given: Mapping[str, Quantity], at: str, checks: Checks) -> Iterator[tuple[str, Quantity]]:
    for resource, value in given.items():
        if checks.amount(f"{at}[{resource}]", value, above_zero=False) is not None:
            yield resource, value
