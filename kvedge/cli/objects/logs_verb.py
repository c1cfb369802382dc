"""`kvedge logs`: what a Pod, or the launcher of a VMI, has written.

Called by the group. Prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.client.nearest_vm import add_nearest_hint
from kvedge.client.session import Session, check_name
from kvedge.client.subresources import VMI
from kvedge.kube.errors import NotFound
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance


@click.command()
@click.argument("name", metavar="POD | vmi/NAME")
@session_options
@click.option("-f", "--follow", is_flag=True, help="Go on as more is written.")
@click.option("--tail", type=int, default=None, help="Only so many last lines.")
def logs(name: str, kubeconfig: Path | None, namespace: str | None, follow: bool, tail: int | None) -> None:
    """Show a launcher's log: `kvedge logs vmi/web`.

    Or any Pod's: `kvedge logs virt-launcher-web-x7k2p`.
    """
    session = open_session(kubeconfig, namespace)
    kind, _, rest = name.rpartition("/")
    pod = rest if kind in ("", "pod", "pods") else _launcher_of(session, rest)
    query = {"follow": "true"} if follow else {}
    if tail is not None:
        query["tailLines"] = str(tail)
    path = Pod.KIND.path(session.namespace, check_name(pod), "log")
    for line in session.client.lines(path, query, accept="*/*").lines():
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def _launcher_of(session: Session, name: str) -> str:
    try:
        vmi = session.client.get(VirtualMachineInstance, session.namespace, check_name(name))
    except NotFound as error:
        raise Refused(add_nearest_hint(session, error.message, VMI, name), Exit.NOT_FOUND) from error
    pods = session.client.list(Pod, session.namespace, label_selector=f"{CREATED_BY}={vmi.metadata.uid}")
    if not pods:
        raise Refused(f"VMI {name} has no launcher Pod (yet)", Exit.NOT_FOUND)
    # A guest that moves has two Pods.
    there = [pod for pod in pods if pod.spec.node_name == vmi.status.node_name]
    return max(there or pods, key=lambda pod: pod.metadata.creation_timestamp or "").metadata.name
