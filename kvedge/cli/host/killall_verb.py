"""`kvedge killall`: ends what the node agent of a data directory runs, and removes what it made on this host.

Called by the group. Needs no API: it works from the agent's records and from what carries our mark. The data directory
itself, with its objects and images, stays. A node of a cluster is refused: its Pods are the kubelet's.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from kvedge.appliance.install.installed import role_here
from kvedge.cli.config_option import CONFIG
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host.box_settings import operators_settings, refuse_kubelet_dir
from kvedge.runtime.services import ServiceError
from kvedge.runtime.settings import Settings, load_settings


@click.command()
@CONFIG
@click.option("--data-dir", help="The data directory of `kvedge standalone` [/var/lib/kvedge].")
@click.option("--pod-cidr", help="Its Pod network [10.99.0.0/24].")
@click.option("--grace", type=float, default=None, help="At most so many seconds for each guest to shut down.")
def killall(config: Path | None, data_dir: str | None, pod_cidr: str | None, grace: float | None) -> None:
    """End all VMs of one box and remove their namespaces, links, mounts and rules; may be run again."""
    if os.geteuid() != 0:
        raise Refused("kvedge killall needs root", Exit.HOST)
    from kvedge.appliance.install.data_directory import holds_box

    operators = operators_settings(config, data_dir=data_dir, pod_cidr=pod_cidr)
    settings = operators.settings
    _refuse_on_a_node(settings)
    refuse_kubelet_dir(operators)
    if not settings.data_path.is_dir():
        click.echo(f"{settings.data_path} does not exist: nothing to end")
        return
    if not holds_box(settings.data_path):
        # Taking the lock makes a directory for it, by which another program's directory would look like ours.
        click.echo(f"no kvedge standalone has run in {settings.data_path}: nothing to end")
        return
    # The data directory stays, and with it the networks of these NICs.
    end_all(settings, grace, keeps_nics=True)


def _refuse_on_a_node(settings: Settings) -> None:
    """A box of another directory may run beside a node of a cluster, as one for a trial does."""
    # As the installed units have them, whatever this shell says.
    node = load_settings(None, {}, {})
    role = role_here(node)
    if role in ("server", "agent") and settings.data_path.resolve() == node.data_path.resolve():
        raise Refused(
            f"this host is a node of a cluster, installed as {role}, and its kubelet ends what runs on it: stop VMs"
            f" with `kvedge stop`, or move them away with `kubectl drain {node.effective_node_name} --ignore-daemonsets"
            " --delete-emptydir-data`; `--data-dir` names a box that runs beside it",
            Exit.HOST,
        )


def end_all(settings: Settings, grace: float | None, *, keeps_nics: bool) -> None:
    """End everything of one data directory; NICs are given back what their bridges have, unless those are kept.

    Raises:
        Refused: when kvedge runs there, or something could not be ended or removed.
    """
    from kvedge.network.errors import NetworkError
    from kvedge.standalone.agent.agent_removal import RemovalError, remove_everything
    from kvedge.standalone.agent.agent_service import AgentConfig
    from kvedge.standalone.agent.pod.pod_record import PodRecordError
    from kvedge.standalone.box_lock import BoxLock

    lock = BoxLock(settings.data_path)
    try:
        lock.start()
        agent = AgentConfig(
            node=settings.effective_node_name,
            data_dir=settings.data_path,
            kubelet=settings.box_kubelet_path,
            pod_cidr=settings.pod_cidr,
        )
        remove_everything(agent, grace, click.echo, keeps_nics=keeps_nics)
    except ServiceError as error:
        raise Refused(f"{error.service}: {error.detail}", Exit.HOST) from error
    except (RemovalError, NetworkError, PodRecordError) as error:
        raise Refused(str(error)) from error
    finally:
        lock.stop()
