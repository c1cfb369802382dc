"""What is installed on this host, and how it is.

Called by install, status and report. Reads units and settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kvedge.appliance.cluster.node_kubeconfigs import health_source, roles_directory
from kvedge.runtime.settings import NODE_ROLES, Settings

if TYPE_CHECKING:
    from kvedge.appliance.host.health import Health
    from kvedge.appliance.host.layout import Role


def role_here(settings: Settings) -> Role | None:
    """The role that is installed on this host."""
    from kvedge.appliance.host.layout import Layout
    from kvedge.appliance.install.installation import find_installed_role

    return find_installed_role(Layout(settings.data_path), settings.roles_of_node)


def health_here(settings: Settings, role: Role | None) -> Health:
    """Look once at what is installed."""
    from kvedge.appliance.host.health import check_health
    from kvedge.appliance.host.layout import main_unit

    kubeconfig, node = health_source(settings, role)
    found = check_health(kubeconfig, main_unit(role) if role else None, node)
    return replace(found, problems=(*found.problems, *_ending(settings, role))) if node else found


def _ending(settings: Settings, role: Role | None) -> Iterator[str]:
    """Certificates of this node's roles that end soon, and whether anybody renews them."""
    from kvedge.appliance.cluster.cluster_node_plan import ends_soon
    from kvedge.appliance.host.layout import Layout

    agents = "make another with `kvedge user role` on a server"
    remedy = agents if role == "agent" else "run `kvedge user renew`, which says why that was not done yet"
    roles = roles_directory(settings, Layout())
    own = sorted(roles / name for name in NODE_ROLES if (roles / name).is_file())
    for path in own:
        if end := ends_soon(path.read_bytes(), datetime.now(UTC)):
            yield f"the certificate in {path} ends on {end:%Y-%m-%d}: {remedy}"
    if own and role == "server":
        yield from _timer_problem()


def _timer_problem() -> Iterator[str]:
    from kvedge.appliance.host.layout import RENEWAL_TIMER
    from kvedge.appliance.host.systemctl_client import SystemdError, systemd_runs, unit_property

    if not systemd_runs():
        return
    try:
        state = unit_property(RENEWAL_TIMER, "ActiveState")
    except SystemdError as error:
        yield str(error)
        return
    if state != "active":
        yield f"{RENEWAL_TIMER} is {state}, and nobody renews certificates: systemctl enable --now {RENEWAL_TIMER}"
