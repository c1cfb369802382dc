"""`kvedge create instancetype|preference`: print a manifest, as virtctl does; nothing is sent anywhere.

Part of the group of create_verb.py.
"""

from __future__ import annotations

from typing import Any

import click

from kvedge.cli.verb_command import VerbCommand

_output = click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="The format [yaml].")


@click.command(cls=VerbCommand)
@click.option("--name", default="", help="The instance type's name [instancetype- and five letters].")
@click.option("--cpu", type=click.IntRange(1), required=True, help="How many vCPUs.")
@click.option("--memory", required=True, help="How much memory.")
@click.option("--gpu", multiple=True, metavar="name:N,devicename:D", help="A GPU of the host.")
@click.option("--hostdevice", multiple=True, metavar="name:N,devicename:D", help="A device of the host.")
@click.option("--iothreadspolicy", default="", help="auto or shared.")
@click.option("--namespaced", is_flag=True, help="For one namespace, and not for all.")
@_output
def instancetype(output: str, **flags: Any) -> None:
    """Print an instance type's manifest; pipe it to `kvedge apply -f -`."""
    from kvedge.cli.output import print_document
    from kvedge.client.manifests.type_manifests import InstancetypeOptions, instancetype_manifest
    from kvedge.client.manifests.vm_manifest import canonical_size
    from kvedge.client.random_names import random_name

    is_namespaced = flags["namespaced"]
    options = InstancetypeOptions(
        flags["name"] or random_name("instancetype" if is_namespaced else "clusterinstancetype"),
        flags["cpu"],
        canonical_size("memory", flags["memory"]),
        is_namespaced,
        flags["gpu"],
        flags["hostdevice"],
        flags["iothreadspolicy"],
    )
    print_document(instancetype_manifest(options), output, sort_keys=True)


@click.command(cls=VerbCommand)
@click.option("--name", default="", help="The preference's name [preference- and five letters].")
@click.option("--volume-storage-class", default="", help="The storage class of DataVolume templates.")
@click.option("--machine-type", default="", help="The machine.")
@click.option("--cpu-topology", default="", help="sockets, cores, threads, spread or any.")
@click.option("--namespaced", is_flag=True, help="For one namespace, and not for all.")
@_output
def preference(output: str, **flags: Any) -> None:
    """Print a preference's manifest; pipe it to `kvedge apply -f -`."""
    from kvedge.cli.output import print_document
    from kvedge.client.manifests.type_manifests import PreferenceOptions, preference_manifest
    from kvedge.client.random_names import random_name

    is_namespaced = flags["namespaced"]
    options = PreferenceOptions(
        flags["name"] or random_name("preference" if is_namespaced else "clusterpreference"),
        is_namespaced,
        flags["volume_storage_class"],
        flags["machine_type"],
        flags["cpu_topology"],
    )
    print_document(preference_manifest(options), output, sort_keys=True)
