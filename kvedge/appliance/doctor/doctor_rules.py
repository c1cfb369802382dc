"""What is good or bad about a host: a list of small rules over HostFacts, each yielding findings with a remedy.

Called by the doctor verb. Pure. Modelled on what `k3s check-config` and `virt-host-validate` look at; the limits are
those of kvedge's own needs, and each says where it comes from. The rules stand by subject in the files beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.appliance.doctor.capacity_rules import check_disk, check_limits, check_memory, check_volumes
from kvedge.appliance.doctor.findings import DoctorOptions, Finding, Rule
from kvedge.appliance.doctor.host_facts import HostFacts
from kvedge.appliance.doctor.network_rules import check_filters, check_network
from kvedge.appliance.doctor.platform_rules import (
    check_cgroups,
    check_devices,
    check_kernel,
    check_kvm,
    check_modules,
    check_passthrough,
    check_programs,
)
from kvedge.appliance.doctor.system_rules import (
    check_clock,
    check_launcher_user,
    check_security,
    check_system,
    check_watchdog,
)

RULES: Final[Sequence[Rule]] = (
    check_kernel,
    check_kvm,
    check_devices,
    check_modules,
    check_passthrough,
    check_programs,
    check_cgroups,
    check_disk,
    check_volumes,
    check_memory,
    check_limits,
    check_security,
    check_launcher_user,
    check_network,
    check_filters,
    check_clock,
    check_system,
    check_watchdog,
)


def examine(facts: HostFacts, options: DoctorOptions) -> list[Finding]:
    """All findings, in the order of the rules."""
    return [finding for rule in RULES for finding in rule(facts, options)]
