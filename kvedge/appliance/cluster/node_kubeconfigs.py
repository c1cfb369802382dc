"""Which kubeconfigs on this host are whose: the roles' own, the administrator's, and the one that tells of its health.

Called by what prepares a node, and by install, status, renew and report. Reads settings, and looks which files are
there.
"""

from __future__ import annotations

from pathlib import Path

from kvedge.appliance.host.distributions import of_server
from kvedge.appliance.host.layout import Layout, Role
from kvedge.runtime.settings import Settings


def roles_directory(settings: Settings, layout: Layout) -> Path:
    """Where the roles' kubeconfigs are, each under its role's name: a directory that the settings name, or ours."""
    named = Path(settings.kubeconfig) if settings.kubeconfig else layout.roles
    return named if named.is_dir() else layout.roles


def administrator_kubeconfig(operators: Settings) -> Path | None:
    """The administrator's kubeconfig on this host, if there is one: that which the operator names, or a distribution's.

    `operators` are the settings without those of an installation, which name the roles' own.
    """
    named = Path(operators.kubeconfig) if operators.kubeconfig else None
    if named is not None and not named.is_dir():
        return named
    distribution = of_server(Path.exists)
    return distribution.kubeconfig if distribution else None


def health_source(settings: Settings, role: Role | None) -> tuple[Path, str]:
    """The kubeconfig by which health is seen, and the node that it is asked about; empty for all of one box."""
    # Where nothing is installed, roles may run by other means, for the cluster that the settings name.
    names_cluster = role is None and bool(settings.kubeconfig or settings.node_kubeconfig)
    if role in ("server", "agent") or names_cluster:
        from kvedge.appliance.cluster.cluster_node_plan import handler_kubeconfig

        return handler_kubeconfig(settings, Layout().roles), settings.effective_node_name
    return settings.user_kubeconfig, ""
