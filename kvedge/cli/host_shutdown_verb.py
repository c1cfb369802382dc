"""`kvedge host-shutdown`: shuts the guests of one box down because the host goes down.

Called by the group; run by kvedge-guests.service when systemd stops it. Needs no API. The guests' VMs run again after
the next boot, by their run strategies.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.roles import CONFIG, config_path
from kvedge.runtime.services import ServiceError
from kvedge.runtime.settings import load_settings


@click.command("host-shutdown")
@CONFIG
@click.option("--data-dir", help="The data directory of `kvedge standalone` [/var/lib/kvedge].")
@click.option("--longest", type=float, default=540.0, help="At most so many seconds for each guest [540].")
def host_shutdown(config: Path | None, data_dir: str | None, longest: float) -> None:
    """Shut all guests of this box down, each within its own grace period; they run again when the box does."""
    if os.geteuid() != 0:
        raise Refused("kvedge host-shutdown needs root", Exit.HOST)
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    if not settings.data_path.is_dir():
        return
    from kvedge.standalone.agent.host_shutdown import shut_down_pods
    from kvedge.standalone.agent.pod_record import PodRecordError
    from kvedge.standalone.box_lock import BoxLock

    lock = BoxLock(settings.data_path)
    try:
        # While kvedge runs it would start the guests anew.
        lock.start()
        killed = shut_down_pods(settings.kubelet_path, longest, click.echo)
    except ServiceError as error:
        raise Refused(f"{error.service}: {error.detail}", Exit.HOST) from error
    except PodRecordError as error:
        raise Refused(str(error)) from error
    finally:
        lock.stop()
    if killed:
        raise Refused(f"killed, as they did not shut down in time: {', '.join(killed)}", Exit.TIMED_OUT)
