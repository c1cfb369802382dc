"""`kvedge killall`: ends what the node agent of a data directory runs, and removes what it made on this host.

Called by the group. Needs no API: it works from the agent's records and from what carries our mark. The data directory
itself, with its objects and images, stays.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.roles import CONFIG, config_path
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
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir, "pod_cidr": pod_cidr})
    if not settings.data_path.is_dir():
        click.echo(f"{settings.data_path} does not exist: nothing to end")
        return
    end_all(settings, grace)


def end_all(settings: Settings, grace: float | None) -> None:
    """End everything of one data directory.

    Raises:
        Refused: when kvedge runs there, or something could not be ended or removed.
    """
    from kvedge.network.errors import NetworkError
    from kvedge.standalone.agent.agent_removal import RemovalError, remove_everything
    from kvedge.standalone.agent.agent_service import AgentConfig
    from kvedge.standalone.agent.pod_record import PodRecordError
    from kvedge.standalone.box_lock import BoxLock

    lock = BoxLock(settings.data_path)
    try:
        lock.start()
        agent = AgentConfig(
            node=settings.effective_node_name,
            data_dir=settings.data_path,
            kubelet=settings.kubelet_path,
            pod_cidr=settings.pod_cidr,
        )
        remove_everything(agent, grace, click.echo)
    except ServiceError as error:
        raise Refused(f"{error.service}: {error.detail}", Exit.HOST) from error
    except (RemovalError, NetworkError, PodRecordError) as error:
        raise Refused(str(error)) from error
    finally:
        lock.stop()
