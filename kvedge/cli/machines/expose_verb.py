"""`kvedge expose TYPE NAME`: a Service for a port of a VM, as virtctl makes it.

Called by the group. Prints one line when the Service is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument
from kvedge.client.session import check_name

_REPLICA_SETS: Final = "virtualmachineinstancereplicasets"
_REPLICA_SET_NAMES: Final = ("vmirs", "vmirss", _REPLICA_SETS, _REPLICA_SETS.removesuffix("s"))
_KINDS: Final = {
    "virtualmachines": "VirtualMachine",
    "virtualmachineinstances": "VirtualMachineInstance",
    _REPLICA_SETS: "VirtualMachineInstanceReplicaSet",
}


@click.command(cls=VerbCommand)
@click.argument("kind", metavar="vm|vmi|vmirs")
@vm_argument("exposed", metavar="NAME")
@session_options
@click.option("--name", required=True, help="The Service's name.")
@click.option("--port", type=click.IntRange(1, 65535), default=None, help="The Service's port [those of the manifest].")
@click.option("--target-port", default="", help="The guest's port, by number or name [the Service's].")
@click.option("--type", "type_", default="ClusterIP", show_default=True, help="ClusterIP, NodePort or LoadBalancer.")
@click.option("--protocol", default="TCP", show_default=True, help="TCP or UDP.")
@click.option("--port-name", default="", help="The port's name.")
@click.option("--cluster-ip", default="", help="The Service's address, or None for none.")
@click.option("--external-ip", default="", help="An address outside that leads to it too.")
@click.option("--ip-family", default="", help="IPv4, IPv6, or both with a comma.")
@click.option("--ip-family-policy", default="", help="SingleStack, PreferDualStack or RequireDualStack.")
def expose(
    kind: str, exposed: str, kubeconfig: Path | None, namespace: str | None, type_: str, port: int | None, **flags: Any
) -> None:
    """Make a Service for a port of a VM.

    \b
    kvedge expose vm web --name web-http --port 80
    kvedge expose vmi web --name web-ssh --port 2222 --target-port 22 --type NodePort
    """
    from kvedge.client.manifests.service_manifest import ServiceOptions, service_manifest
    from kvedge.client.subresources import get_object

    resource = _resource(kind)
    options = ServiceOptions(type=type_, port=port or 0, **flags)
    check_name(options.name, "--name")
    session = open_session(kubeconfig, namespace)
    document = get_object(session, resource, exposed)
    # An answer to a GET may lack its kind and its namespace; both are known here.
    document["kind"] = _KINDS[resource]
    document["metadata"].setdefault("namespace", session.namespace)
    session.client.request(
        "POST",
        f"/api/v1/namespaces/{session.namespace}/services",
        service_manifest(options, document),
        {"fieldManager": "kvedge"},
    )
    click.echo(f"Service {options.name} successfully created for {kind.lower()} {exposed}")


def _resource(kind: str) -> str:
    from kvedge.client.errors import UsageError
    from kvedge.client.subresources import resource_of

    if kind.lower() in _REPLICA_SET_NAMES:
        return _REPLICA_SETS
    try:
        return resource_of(kind)
    except UsageError as refused:
        raise Refused(f"unsupported resource type: {kind}: use vm, vmi or vmirs", Exit.USAGE) from refused
