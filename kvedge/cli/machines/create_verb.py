"""`kvedge create vm`: prints a manifest, as virtctl does; nothing is sent anywhere.

Called by the group. Reads the password's file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.login_options import read_password, split_keys
from kvedge.cli.machines.create_type_verbs import instancetype, preference
from kvedge.cli.verb_command import VerbCommand

F = TypeVar("F", bound=Callable[..., Any])

_IMPORTS: Final = (
    "kvedge imports no volumes: put the disk into the box's image store with `kvedge image import` or `kvedge image "
    "pull`, and name it with --volume-containerdisk=src:NAME"
)
# Flags of virtctl's that kvedge cannot do, and what to do instead.
_REFUSED: Final = {
    "volume-import": _IMPORTS,
    "volume-datasource": _IMPORTS,
    "volume-clone-pvc": _IMPORTS,
    "volume-blank": "kvedge makes no volumes: add an emptyDisk to the manifest, or `kvedge launch --disk-size`",
}
_SOURCES: Final = ("nocloud", "configdrive", "none")


def _add_refused_options(function: F) -> F:
    for flag in reversed(_REFUSED):
        function = click.option(f"--{flag}", multiple=True, hidden=True)(function)
    return function


class _CreateGroup(click.Group):
    """Says of what virtctl creates and kvedge does not, why."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from kvedge.cli.not_yet_verbs import NOT_CREATED

        if args[0] in NOT_CREATED:
            raise Refused(NOT_CREATED[args[0]], Exit.USAGE)
        return super().resolve_command(ctx, args)


@click.group(cls=_CreateGroup)
def create() -> None:
    """Print a manifest: `kvedge create vm|instancetype|preference`."""


create.add_command(instancetype)
create.add_command(preference)


@create.command(cls=VerbCommand)
@click.option("--name", default="", help="The VM's name [vm- and five letters].")
@click.option("--run-strategy", default="Always", show_default=True, help="When it should run.")
@click.option("--termination-grace-period", type=int, default=180, show_default=True, help="Seconds to shut down in.")
@click.option("--memory", default=None, help="The guest's memory [512Mi].")
@click.option(
    "--instancetype", default="", metavar="[KIND/]NAME", help="The instance type, which gives CPUs and memory."
)
@click.option(
    "--infer-instancetype",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=None,
    help="Read it from the volume that is booted.",
)
@click.option("--infer-instancetype-from", default="", metavar="VOLUME", help="Read it from this volume.")
@click.option("--preference", default="", metavar="[KIND/]NAME", help="The preference, for the guest's system.")
@click.option(
    "--infer-preference",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=None,
    help="Read it from the volume that is booted.",
)
@click.option("--infer-preference-from", default="", metavar="VOLUME", help="Read it from this volume.")
@click.option(
    "--volume-containerdisk", multiple=True, metavar="src:IMAGE[,name:N][,bootorder:N]", help="A container disk."
)
@click.option("--volume-pvc", multiple=True, metavar="src:CLAIM[,name:N][,bootorder:N]", help="A claim, as it is.")
@click.option("--volume-sysprep", default=None, metavar="src:NAME[,type:configmap|secret]", help="Answers for Windows.")
@click.option("--user", default="", help="The user that cloud-init sets up.")
@click.option("--password-file", type=click.Path(), default=None, help="A file with that user's password.")
@click.option("--ssh-key", multiple=True, help="A public key for that user; several with commas.")
@click.option("--ga-manage-ssh", is_flag=True, help="Let the guest agent write SSH keys.")
@click.option(
    "--access-cred",
    multiple=True,
    metavar="src:SECRET[,type:T][,method:M][,user:U]",
    help="Keys or a password of a Secret.",
)
@click.option("--cloud-init", default="nocloud", show_default=True, help="nocloud, configdrive or none.")
@click.option("--cloud-init-user-data", default="", help="User data in base64, instead of what the flags above make.")
@click.option("--cloud-init-network-data", default="", help="Network data in base64.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="The format [yaml].")
@_add_refused_options
def vm(output: str, **flags: Any) -> None:
    """Print a VirtualMachine's manifest, as virtctl does; pipe it to `kvedge apply -f -`."""
    from kvedge.cli.output import print_document
    from kvedge.client.manifests.vm_manifest import vm_manifest

    _refuse(flags)
    print_document(vm_manifest(_options(flags)), output, sort_keys=True)


def _refuse(flags: dict[str, Any]) -> None:
    for flag, remedy in _REFUSED.items():
        if flags[flag.replace("-", "_")]:
            raise Refused(f"--{flag}: {remedy}", Exit.USAGE)
    for names in (
        ("memory", "instancetype", "infer-instancetype", "infer-instancetype-from"),
        ("preference", "infer-preference", "infer-preference-from"),
    ):
        given = [name for name in names if flags[name.replace("-", "_")] not in (None, "")]
        if len(given) > 1:
            raise Refused(f"--{given[0]} and --{given[1]} exclude each other", Exit.USAGE)
    for flag in ("user", "password_file", "ssh_key", "ga_manage_ssh"):
        if flags[flag] and flags["cloud_init_user_data"]:
            raise Refused(f"--cloud-init-user-data and --{flag.replace('_', '-')} exclude each other", Exit.USAGE)


def _options(flags: dict[str, Any]) -> Any:
    from kvedge.client.manifests.type_manifests import TypeChoice
    from kvedge.client.manifests.vm_manifest import RUN_STRATEGIES, VmOptions
    from kvedge.client.manifests.volume_params import flag_error
    from kvedge.client.random_names import random_name

    name = flags["name"] or random_name("vm")
    if flags["run_strategy"] not in RUN_STRATEGIES:
        known = ", ".join(RUN_STRATEGIES)
        raise flag_error(
            "run-strategy", f'invalid run strategy "{flags["run_strategy"]}", supported values are: {known}'
        )
    disks, claims = _volumes(name, flags)
    cloud_init, credentials = _guest_data(flags)
    return VmOptions(
        name=name,
        run_strategy=flags["run_strategy"],
        grace_period=flags["termination_grace_period"],
        memory=flags["memory"] or "",
        instancetype=TypeChoice(
            flags["instancetype"],
            False if flags["memory"] else flags["infer_instancetype"],
            flags["infer_instancetype_from"],
        ),
        preference=TypeChoice(flags["preference"], flags["infer_preference"], flags["infer_preference_from"]),
        container_disks=disks,
        claims=claims,
        sysprep=_sysprep(flags["volume_sysprep"]),
        access_credentials=credentials,
        cloud_init=cloud_init,
    )


def _volumes(vm_name: str, flags: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    from msgspec.structs import replace

    from kvedge.client.manifests.volume_params import check_volumes, flag_error, parse_volume

    disks = [parse_volume("volume-containerdisk", text) for text in flags["volume_containerdisk"]]
    disks = [
        disk if disk.name else replace(disk, name=f"{vm_name}-containerdisk-{index}")
        for index, disk in enumerate(disks)
    ]
    claims = [parse_volume("volume-pvc", text) for text in flags["volume_pvc"]]
    for claim in claims:
        if "/" in claim.src:
            raise flag_error("volume-pvc", f'not allowed to specify namespace of pvc "{claim.src.rpartition("/")[2]}"')
    claims = [claim if claim.name else replace(claim, name=claim.src) for claim in claims]
    orders = [volume.boot_order for volume in (*disks, *claims) if volume.boot_order is not None]
    flag = "volume-pvc" if claims else "volume-containerdisk"
    check_volumes(flag, [volume.name for volume in (*disks, *claims)], orders)
    return disks, claims


def _guest_data(flags: dict[str, Any]) -> tuple[Any, list[Any]]:
    from kvedge.client.manifests.access_credentials import parse_access_credential
    from kvedge.client.manifests.cloud_config import Login
    from kvedge.client.manifests.vm_manifest import CloudInitData
    from kvedge.client.manifests.volume_params import flag_error

    source = flags["cloud_init"].lower()
    if source not in _SOURCES:
        known = ", ".join(_SOURCES)
        raise flag_error("cloud-init", f'invalid cloud-init data source type "{source}", supported values are: {known}')
    found = [parse_access_credential(text, flags["user"], source) for text in flags["access_cred"]]
    password = ""
    if flags["password_file"] is not None:
        click.echo("WARNING: --password-file: The password is stored in cleartext in the VM definition!", err=True)
        password = read_password(Path(flags["password_file"]))
    manage_ssh = flags["ga_manage_ssh"] or any(item.by_agent for item in found)
    login = Login(flags["user"], password, split_keys(flags["ssh_key"]), manage_ssh)
    data = CloudInitData(
        source=source,
        login=login,
        user_data_base64=flags["cloud_init_user_data"],
        network_data_base64=flags["cloud_init_network_data"],
        is_needed=any(item.by_cloud_init for item in found),
    )
    return data, [item.document for item in found]


def _sysprep(text: str | None) -> dict[str, Any] | None:
    from kvedge.client.manifests.volume_params import flag_error, parse_params

    if text is None:
        return None
    params = parse_params("volume-sysprep", text, ("src", "type"))
    kinds = {"configmap": "configMap", "secret": "secret"}
    kind = kinds.get(params.get("type", "configmap").lower())
    if kind is None:
        raise flag_error(
            "volume-sysprep",
            f'invalid sysprep source type "{params["type"]}", supported values are: {", ".join(kinds)}',
        )
    if not params.get("src"):
        raise flag_error("volume-sysprep", "src must be specified")
    return {kind: {"name": params["src"]}}
