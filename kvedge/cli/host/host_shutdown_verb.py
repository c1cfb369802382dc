"""`kvedge host-shutdown`: shuts the guests of this host down because the host goes down.

Called by the group; run by kvedge-guests.service when systemd stops it. Needs no API. The guests' VMs run again after
the next boot, by their run strategies. On a node of a cluster Pods are the kubelet's, and only their launchers are told
to end; the cluster is told, where it answers, that no VM should come here meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.runtime.services import ServiceError
from kvedge.runtime.settings import Settings, load_settings

_TELL_SECONDS: Final = 5.0


@click.command("host-shutdown")
@CONFIG
@click.option("--data-dir", help="The data directory of `kvedge standalone` [/var/lib/kvedge].")
@click.option("--longest", type=float, default=540.0, help="At most so many seconds for each guest [540].")
def host_shutdown(config: Path | None, data_dir: str | None, longest: float) -> None:
    """Shut all guests of this host down, each within its own grace period; they run again when the host does."""
    if os.geteuid() != 0:
        raise Refused("kvedge host-shutdown needs root", Exit.HOST)
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    if not settings.data_path.is_dir():
        return
    killed = _shut_down_node(settings, longest) if settings.kubeconfig or settings.node_kubeconfig else []
    killed += _shut_down_box(settings, longest)
    if killed:
        raise Refused(f"killed, as they did not shut down in time: {', '.join(killed)}", Exit.TIMED_OUT)


def _shut_down_node(settings: Settings, longest: float) -> list[str]:
    """Those in Pods of a kubelet; returns what had to be killed."""
    from kvedge.appliance.cluster.node_shutdown import pod_launchers, shut_down_launchers
    from kvedge.cli.host.role_services import kubelet_directory

    if _kvedge_runs():
        # It would say again that VMs may come here.
        raise Refused("kvedge runs: stop it first (systemctl stop kvedge-node)", Exit.HOST)
    kubelet = kubelet_directory(settings)
    launchers = pod_launchers(kubelet)
    if launchers:
        _take_no_vm(settings)
    return shut_down_launchers(launchers, kubelet, longest, click.echo)


def _kvedge_runs() -> bool:
    """Whether the node's kvedge does; a systemd that does not say so keeps no guest from its orderly end."""
    from kvedge.appliance.host.systemctl_client import SystemdError, systemd_runs, unit_property

    try:
        return systemd_runs() and unit_property("kvedge-node.service", "ActiveState") == "active"
    except SystemdError as error:
        click.echo(f"whether kvedge still runs is not known: {error}", err=True)
        return False


def _take_no_vm(settings: Settings) -> None:
    """Say that no VM should come to this node; its handler says otherwise when it runs again."""
    from kvedge.appliance.cluster.node_kubeconfigs import health_source
    from kvedge.kube.errors import KubeError
    from kvedge.kube.kube_client import KubeClient
    from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
    from kvedge.resources.names import SCHEDULABLE

    kubeconfig, node = health_source(settings, "agent")
    patch = {"metadata": {"labels": {SCHEDULABLE: "false"}}}
    try:
        client = KubeClient.from_kubeconfig(kubeconfig, "kvedge-host-shutdown").hurry(_TELL_SECONDS)
        client.request("PATCH", f"/api/v1/nodes/{node}", patch, None, "application/merge-patch+json")
    except (KubeError, KubeconfigError) as error:
        click.echo(f"the cluster was not told that node {node} takes no VM: {error}", err=True)


def _shut_down_box(settings: Settings, longest: float) -> list[str]:
    """Those of the node agent of one box; returns what had to be killed."""
    from kvedge.standalone.agent.host_shutdown import shut_down_pods
    from kvedge.standalone.box_lock import BoxLock

    lock = BoxLock(settings.data_path)
    try:
        # While kvedge runs it would start the guests anew.
        lock.start()
        return shut_down_pods(settings.box_kubelet_path, longest, click.echo)
    except ServiceError as error:
        raise Refused(f"{error.service}: {error.detail}", Exit.HOST) from error
    finally:
        lock.stop()
