"""`kvedge user create|role|list|delete|renew`: a kubeconfig for somebody else, with rights of their own.

Called by the group. Asks the API server, as `kubectl certificate approve` would, and writes one file that only its
owner can read; the private key is made here and is nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.objects.renew_verb import renew
from kvedge.cli.sessions import find_kubeconfig, open_session, session_options
from kvedge.cli.verb_command import VerbGroup
from kvedge.client.harmless_text import harmless
from kvedge.client.tables import columns
from kvedge.client.users.user_credentials import cluster_entry, request_kubeconfig
from kvedge.client.users.user_manifest import (
    BINDINGS,
    USER_LABEL,
    Given,
    NewUser,
    at_server,
    binding_manifest,
    check_user,
    list_given_roles,
    role_path,
    role_user,
)
from kvedge.kube.kubeconfigs.kubeconfig_writer import write_kubeconfig

if TYPE_CHECKING:
    from kvedge.kube.kube_client import KubeClient

_LONGEST_DAYS: Final = 3650


_DAYS = click.option(
    "--days", type=click.IntRange(1, _LONGEST_DAYS), default=365, show_default=True, help="How long it lasts."
)
_OUTPUT = click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
_FORCE = click.option("--force", is_flag=True, help="Replace the file when it is there.")
_TIMEOUT = click.option(
    "--timeout", type=float, default=30.0, show_default=True, help="Seconds to wait for the certificate."
)


@click.group(cls=VerbGroup)
def user() -> None:
    """Users of the API: certificates and rights for people and programs."""


user.add_command(renew)


@user.command()
@click.argument("name")
@session_options
@click.option("--group", "groups", multiple=True, help="A group that the user is in; may be repeated.")
@click.option(
    "--role", "roles", multiple=True, help="A ClusterRole to give, such as kubevirt.io:view; may be repeated."
)
@click.option("-A", "--all-namespaces", is_flag=True, help="The roles count everywhere, not in one namespace only.")
@_DAYS
@_OUTPUT
@_FORCE
@_TIMEOUT
def create(
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
    all_namespaces: bool,
    days: int,
    output: Path | None,
    force: bool,
    timeout: float,
) -> None:
    """Make a user: a certificate, the roles it is given, and a kubeconfig with both.

    The roles count in the namespace of -n, or of your kubeconfig; with -A everywhere. A certificate cannot be called
    back before it ends; `kvedge user delete` takes the roles away.
    """
    if all_namespaces and namespace:
        raise Refused("--namespace and --all-namespaces exclude each other", Exit.USAGE)
    path = _free_path(output or Path(f"{name.replace('/', '_')}.kubeconfig"), force)
    cluster = cluster_entry(find_kubeconfig(kubeconfig))
    session = open_session(kubeconfig, namespace)
    made = check_user(NewUser(name, groups, roles, "" if all_namespaces else session.namespace, days))
    _give(session.client, made)
    write_kubeconfig(path, request_kubeconfig(session.client, made, cluster, timeout))
    where = "everywhere" if all_namespaces else f"in namespace {made.namespace}"
    given = f"with {', '.join(roles)} {where}" if roles else "without any role yet"
    click.echo(f"user {name} was made, {given}: {path}")


@user.command("role")
@click.argument("role", type=click.Choice(["controller", "api", "handler"]))
@session_options
@click.option("--node", default="", help="The node that a handler speaks for.")
@click.option("--server", default="", help="The API server's address as that node reaches it [the kubeconfig's].")
@_DAYS
@_OUTPUT
@_FORCE
@_TIMEOUT
def role_(
    role: str,
    kubeconfig: Path | None,
    namespace: str | None,
    node: str,
    server: str,
    days: int,
    output: Path | None,
    force: bool,
    timeout: float,
) -> None:
    """Make a kubeconfig for one of kvedge's own roles in a cluster.

    What the role may do there is in k3s/rbac, which has to be applied once: `kubectl apply -f k3s/rbac`.
    """
    if namespace:
        raise Refused("--namespace: a role of kvedge works for the whole cluster", Exit.USAGE)
    made = role_user(role, node, days)
    path = _free_path(output or Path(f"kvedge-{role}{f'-{node}' if node else ''}.kubeconfig"), force)
    cluster = at_server(cluster_entry(find_kubeconfig(kubeconfig)), server)
    session = open_session(kubeconfig, None)
    write_kubeconfig(path, request_kubeconfig(session.client, made, cluster, timeout))
    click.echo(f"kubeconfig of {made.name}: {path}")


@user.command("list")
@session_options
def list_(kubeconfig: Path | None, namespace: str | None) -> None:
    """Show the users that were made here, and the roles that each was given."""
    session = open_session(kubeconfig, namespace)
    rows = [["NAME", "ROLE", "NAMESPACE"]]
    for given in _list_given(session.client):
        if namespace in (None, given.namespace):
            # A client that may write bindings may write any name into them.
            name, role = (harmless(text.encode()) for text in (given.user, given.role))
            rows.append([name, role, given.namespace or "(everywhere)"])
    for line in columns(rows):
        click.echo(line)


@user.command()
@click.argument("name")
@session_options
def delete(name: str, kubeconfig: Path | None, namespace: str | None) -> None:
    """Take a user's roles away; with -n those in one namespace only.

    The certificate is good until it ends, but opens nothing any more, beside what the user's groups may do.
    """
    session = open_session(kubeconfig, namespace)
    found = [
        given for given in _list_given(session.client) if given.user == name and namespace in (None, given.namespace)
    ]
    if not found:
        raise Refused(f"user {name} has no role that was given by `kvedge user create`", Exit.NOT_FOUND)
    for given in found:
        session.client.request("DELETE", given.path)
        where = f"in namespace {given.namespace}" if given.namespace else "everywhere"
        click.echo(f"user {name} has lost {given.role} {where}")


def _list_given(client: KubeClient) -> list[Given]:
    query = {"labelSelector": USER_LABEL}
    return list_given_roles([item for path in BINDINGS for item in client.request("GET", path, query=query)["items"]])


def _free_path(path: Path, force: bool) -> Path:
    if path.exists() and not force:
        raise Refused(f"{path} is there already: name another file with --output, or replace it with --force")
    return path


def _give(client: KubeClient, made: NewUser) -> None:
    """Bind the roles; what is bound already is left as it is."""
    from kvedge.kube.errors import AlreadyExists

    for role in made.roles:
        # Asked first: a binding of a role that is not there would be made, and mean nothing.
        client.request("GET", role_path(role))
    for role in made.roles:
        collection, binding = binding_manifest(made, role)
        try:
            client.request("POST", collection, binding)
        except AlreadyExists:
            continue
