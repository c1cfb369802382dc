"""`kvedge user renew`: new certificates for the roles of this node, long before theirs end.

Called by hand, and every day by kvedge-renew.timer on servers of a cluster. Asks the cluster with the administrator's
kubeconfig and replaces files in /etc/kvedge/roles; roles that run take them up by themselves. A handler that speaks as
its node has no certificate of its own: its distribution renews the kubelet's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from kvedge.appliance.cluster.node_kubeconfigs import administrator_kubeconfig, roles_directory
from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.failures import explain
from kvedge.cli.sessions import find_kubeconfig, find_named_kubeconfig
from kvedge.client.errors import ClientError
from kvedge.client.users.user_credentials import cluster_entry, request_kubeconfig
from kvedge.client.users.user_manifest import NewUser
from kvedge.kube.kubeconfigs.kubeconfig_writer import write_kubeconfig
from kvedge.runtime.settings import NODE_ROLES, trace_settings

if TYPE_CHECKING:
    from kvedge.appliance.cluster.renewal_plan import RoleCertificate
    from kvedge.kube.kube_client import KubeClient
    from kvedge.resources.codec import JsonObject

_DAYS: Final = 365


@click.command()
@CONFIG
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    default=None,
    help="The administrator's kubeconfig [the setting kubeconfig, or the distribution's].",
)
@click.option("--all", "everything", is_flag=True, help="Also certificates that are good for long.")
@click.option("--timeout", type=float, default=30.0, show_default=True, help="Seconds to wait for each certificate.")
def renew(config: Path | None, kubeconfig: Path | None, everything: bool, timeout: float) -> None:
    """Renew the certificates of this node's roles that are in the last third of their lives; may be run at any time.

    On a server of a cluster this runs by itself every day (kvedge-renew.timer). Nothing has to be restarted.
    """
    from kvedge.appliance.host.layout import Layout

    # Without what an installation has written: that names the roles' own kubeconfigs.
    operators = trace_settings(config_path(config), os.environ, {}, leave_out=Layout().node_settings).settings
    found = _own_certificates(roles_directory(operators, Layout()))
    if not found:
        click.echo("no role of this node has a certificate of its own: there is nothing to renew")
        return
    named = find_named_kubeconfig(kubeconfig)
    administrator = Path(named) if named else administrator_kubeconfig(operators)
    cluster = cluster_entry(find_kubeconfig(administrator)) if administrator else {}
    due = {path: role for path, role in found.items() if everything or _is_due(role, cluster)}
    for path, role in found.items():
        if path not in due:
            click.echo(f"{path}: {role.user}, good until {role.end:%Y-%m-%d}")
    if due and administrator is None:
        raise Refused(
            f"the certificates in {', '.join(map(str, due))} are to be renewed, but no cluster's administrator is on"
            " this host: name a kubeconfig with --kubeconfig, or make them with `kvedge user role` on a server",
            Exit.HOST,
        )
    if administrator is not None:
        _renew_all(_Signing(administrator, cluster, timeout), due)


class _Signing(Struct, frozen=True):
    """By whom and how new certificates come: `cluster` is where the administrator's kubeconfig leads."""

    administrator: Path
    cluster: JsonObject
    timeout: float


def _renew_all(signing: _Signing, due: Mapping[Path, RoleCertificate]) -> None:
    """Each by itself: a kubeconfig that cannot be renewed keeps no other from it."""
    from kvedge.kube.errors import KubeError
    from kvedge.kube.kube_client import KubeClient

    client = KubeClient.from_kubeconfig(signing.administrator, "kvedge-renew")
    failures: list[Refused] = []
    for path, role in due.items():
        try:
            _renew(client, signing, path, role)
        except (ClientError, KubeError, OSError) as error:
            click.echo(f"{path}: not renewed", err=True)
            failures.append(explain(error))
    client.close()
    if failures:
        raise Refused("; ".join(dict.fromkeys(map(str, failures))), failures[0].code)


def _renew(client: KubeClient, signing: _Signing, path: Path, role: RoleCertificate) -> None:
    from kvedge.appliance.cluster.renewal_plan import renew_cluster

    made = NewUser(role.user, (role.group,), days=_DAYS)
    cluster = renew_cluster(role.cluster, signing.cluster)
    write_kubeconfig(path, request_kubeconfig(client, made, cluster, signing.timeout))
    click.echo(f"{path}: {role.user}, renewed")


def _is_due(role: RoleCertificate, cluster: JsonObject) -> bool:
    """Also one that would not find its server any more, as the cluster has another authority now."""
    from kvedge.appliance.cluster.renewal_plan import renew_cluster

    return role.is_due or renew_cluster(role.cluster, cluster) != role.cluster


def _own_certificates(roles: Path) -> dict[Path, RoleCertificate]:
    from kvedge.appliance.cluster.renewal_plan import role_certificate
    from kvedge.kube.kubeconfigs.own_kubeconfig import NotOursError

    found = {}
    for name in NODE_ROLES:
        path = roles / name
        if not path.is_file():
            continue
        if path.is_symlink():
            click.echo(f"{path}: is a link, and left to whoever keeps what it points to")
            continue
        try:
            found[path] = role_certificate(name, path.read_bytes(), datetime.now(UTC))
        except NotOursError as error:
            click.echo(f"{path}: {error}, and left as it is")
    return found
