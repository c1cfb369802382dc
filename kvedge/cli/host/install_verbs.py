"""`kvedge install|upgrade|uninstall|status`: the program as a part of this host.

Called by the group. Changes /usr/local/bin, /etc and systemd's units by way of `kvedge.appliance`; prints each step.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kvedge.appliance.cluster.node_kubeconfigs import administrator_kubeconfig, health_source
from kvedge.appliance.install.installed import health_here, role_here
from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host.box_settings import operators_settings, refuse_kubelet_dir
from kvedge.runtime.program import is_frozen
from kvedge.runtime.settings import Settings, load_settings, setting_facts

if TYPE_CHECKING:
    from kvedge.appliance.cluster.cluster_node import ClusterNode
    from kvedge.appliance.host.layout import Role
    from kvedge.appliance.host.own_file import OwnFile
    from kvedge.appliance.install.installation import Installation

# Of what lies in a directory that is none of ours.
_NAMED: Final = 5
_FORCE = click.option("--force", is_flag=True, help="Also when the host or the present installation is not healthy.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
_DATA_DIR = click.option("--data-dir", help="Where state, images and Pods are kept [/var/lib/kvedge].")
_ROLE = click.option(
    "--role",
    type=click.Choice(["standalone", "server", "agent"]),
    default=None,
    help="What this host is [what is installed, else standalone].",
)


@click.command()
@_ROLE
@CONFIG
@_DATA_DIR
@_DRY_RUN
@_FORCE
def install(role: Role | None, config: Path | None, data_dir: str | None, dry_run: bool, force: bool) -> None:
    """Install this file as a service of this host; with a newer file, upgrade."""
    _install(role, config, data_dir, dry_run=dry_run, force=force)


@click.command()
@CONFIG
@_DRY_RUN
@_FORCE
def upgrade(config: Path | None, dry_run: bool, force: bool) -> None:
    """Make this file the one that is installed; VMs run on, and the old one comes back when it does not work."""
    if role_here(load_settings(config_path(config), os.environ, {})) is None:
        raise Refused("kvedge is not installed here: use `kvedge install`", Exit.NOT_FOUND)
    _install(None, config, None, dry_run=dry_run, force=force)


@click.command()
@CONFIG
@_DATA_DIR
@click.option("--purge", is_flag=True, help="Also remove settings, objects, images and the disks of VMs.")
@click.option("--grace", type=float, default=None, help="At most so many seconds for each guest to shut down.")
def uninstall(config: Path | None, data_dir: str | None, purge: bool, grace: float | None) -> None:
    """Shut all guests down and take kvedge off this host; may be run again, and needs no API."""
    _need_root("uninstall")
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    from kvedge.appliance.cluster.cluster_node import find_left_files
    from kvedge.appliance.install.data_directory import holds_box, purge_settings
    from kvedge.appliance.install.data_directory import purge as purge_data
    from kvedge.appliance.install.installation import InstallError

    operators = operators_settings(config, data_dir=data_dir)
    role = role_here(settings)
    if role in ("server", "agent"):
        _refuse_while_guests_run(settings)
    if role == "standalone":
        refuse_kubelet_dir(operators)
    _refuse_strangers(settings)
    has_box = holds_box(settings.data_path)

    def end_guests() -> None:
        # A purge also when it is run again, for what others still needed the first time.
        if role in ("server", "agent") or (role is None and purge):
            _leave(settings, operators.settings, role, purge=purge)
        if role in ("standalone", None) and has_box:
            from kvedge.cli.host.killall_verb import end_all

            end_all(settings, grace, keeps_nics=False)

    # Uninstalling removes the program's own files: modules for its last steps are imported before that.
    made = _installation(settings, role or "standalone")

    try:
        made.uninstall(end_guests)
    except (InstallError, OSError) as error:
        raise Refused(f"{error}; run `kvedge uninstall` again") from error
    for path in find_left_files(operators.settings, made.layout):
        click.echo(f"remove {path}")
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        # The operator's own files in it stay.
        made.layout.node_settings.parent.rmdir()
    if purge:
        _purge_volumes(settings)
        for path, remove in ((settings.data_path, purge_data), (made.layout.config.parent, purge_settings)):
            click.echo(f"remove {path}")
            for left in remove(path):
                click.echo(f"kept: {left}, which kvedge has not made, or where something is mounted")
    else:
        click.echo(f"kept: {settings.data_path} and {made.layout.config.parent} (--purge removes them)")


@click.command()
@CONFIG
@_DATA_DIR
@click.option("--strict", is_flag=True, help="Exit with 5 when anything is wrong, for health gates.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The format [table].")
def status(config: Path | None, data_dir: str | None, strict: bool, output: str) -> None:
    """Show whether kvedge works on this host: unit, API, node, VMs."""
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    role = role_here(settings)
    health = health_here(settings, role)
    problems = (*health.problems, *health.alarms)
    if output == "json":
        import json

        document = {"role": role or "", "nodes": health.nodes, "vms": dict(health.phases), "problems": problems}
        document |= {"notes": health.notes}
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(f"installed  {role or 'no'}")
        click.echo(f"nodes      {health.nodes}")
        vms = ", ".join(f"{count} {phase}" for phase, count in sorted(health.phases.items()))
        click.echo(f"VMs        {vms or 'none'}")
        for note in health.notes:
            click.echo(f"note       {note}")
        for problem in problems:
            click.echo(f"problem    {problem}")
        if not problems:
            click.echo("healthy")
    if strict and problems:
        raise Refused(f"not healthy: {'; '.join(problems)}", Exit.HOST)


def _install(role: Role | None, config: Path | None, data_dir: str | None, *, dry_run: bool, force: bool) -> None:
    _need_root("install")
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    from kvedge.appliance.host.systemctl_client import systemd_runs
    from kvedge.appliance.install.install_plan import new_config
    from kvedge.appliance.install.installation import InstallError

    here = role_here(settings)
    chosen: Role = role or here or "standalone"
    if here is not None and (here == "standalone") != (chosen == "standalone"):
        _refuse_to_leave_guests(settings, here, chosen)
    if chosen == "standalone":
        refuse_kubelet_dir(operators_settings(config, data_dir=data_dir))
    if not dry_run and not systemd_runs():
        verb = "standalone" if chosen == "standalone" else "node"
        raise Refused(f"systemd is not this host's init: run `kvedge {verb}` by other means", Exit.HOST)
    if not dry_run:
        _check_host(settings, chosen, force=force)
    made, node = _prepare(chosen, here, config, data_dir, dry_run=dry_run, force=force)
    leaves = chosen == "standalone" and here in ("server", "agent")
    given: dict[str, Any] = {"data-dir": data_dir} if data_dir else {}
    text = config.read_bytes() if config else new_config(setting_facts(), given)
    if dry_run:
        for step in made.steps(text):
            click.echo(step.text)
        if leaves:
            click.echo(f"take node {settings.effective_node_name} out of its cluster")
        return
    try:
        outcome = made.install(text, force=force)
    except InstallError as error:
        raise Refused(str(error)) from error
    if node is not None:
        from kvedge.appliance.cluster.cluster_node import load_launcher_image

        load_launcher_image(node, click.echo)
    what = f"kubeconfig {made.kubeconfig}" if chosen == "standalone" else f"{chosen} {made.node}"
    operators = operators_settings(config, data_dir=data_dir).settings
    if leaves:
        _leave(settings, operators, here, purge=False)
    elif node is not None and here == "server" and chosen == "agent":
        from kvedge.appliance.cluster.cluster_leave import leave_cluster

        leave_cluster(operators, node.name, click.echo, _warn, was_server=True, purge=False)
    click.echo(f"{outcome}: {what}; see `kvedge status`")


def _prepare(
    role: Role, here: Role | None, config: Path | None, data_dir: str | None, *, dry_run: bool, force: bool
) -> tuple[Installation, ClusterNode | None]:
    """The installation with what its role needs; on a server, rights and kubeconfigs are made in the cluster for it."""
    from kvedge.appliance.cluster.cluster_node import find_left_files, prepare_node
    from kvedge.appliance.host.layout import Layout
    from kvedge.appliance.host.own_file import OwnFile

    operators = operators_settings(config, data_dir=data_dir)
    settings = operators.settings
    layout = Layout(settings.data_path)
    if role == "standalone":
        # Of a node of a cluster that this host was. A handler's own kubeconfig is the operator's.
        roles = (layout.roles / name for name in ("api", "controller"))
        gone = [layout.node_settings, *roles, *find_left_files(settings, layout)]
        return _installation(settings, role, own=[OwnFile(path, None) for path in gone]), None
    node = prepare_node(role, operators, layout, click.echo, dry_run=dry_run, force=force)
    for note in node.notes:
        click.echo(note)
    # A box writes it at each start, and kvedge looks there first.
    stale = [OwnFile(settings.user_kubeconfig, None)] if here == "standalone" else []
    return _installation(settings, role, (node.kubeconfig, node.name), [*node.own, *stale]), node


def _check_host(settings: Settings, role: Role, *, force: bool) -> None:
    from kvedge.appliance.doctor.doctor_rules import examine
    from kvedge.appliance.doctor.findings import DoctorOptions, Level
    from kvedge.appliance.doctor.host_reader import read_host

    options = DoctorOptions.of(settings)
    from kvedge.standalone.agent.agent_service import AgentConfig

    bridge = AgentConfig(settings.effective_node_name, settings.data_path, settings.box_kubelet_path).instance
    findings = examine(read_host(options, bridge, try_guest=False), options)
    # A cluster has its own port and its own Pod network.
    others = () if role == "standalone" else ("port", "pod network")
    bad = [finding for finding in findings if finding.level == Level.FAIL and finding.check not in others]
    for finding in bad:
        click.echo(f"{finding.check}: {finding.detail} → {finding.remedy}", err=True)
    if bad and not force:
        raise Refused("this host is not fit (`kvedge doctor` says more); --force installs all the same", Exit.HOST)


def _installation(
    settings: Settings, role: Role, source: tuple[Path, str] | None = None, own: Sequence[OwnFile] = ()
) -> Installation:
    """An installation; `source` is how its health is seen, where that is not in the settings yet."""
    from kvedge.appliance.host.layout import Layout
    from kvedge.appliance.install.installation import Installation

    kubeconfig, node = source or health_source(settings, role)
    return Installation(Layout(settings.data_path), role, _own_file(), kubeconfig, click.echo, node, own)


def _purge_volumes(settings: Settings) -> None:
    """Ask before the disks of claims go: no other copy of a box holds them."""
    from kvedge.appliance.install.volume_places import places_of

    places = {}
    for place in places_of(settings):
        try:
            trouble, volumes = place.trouble(), place.volumes()
        except OSError as error:
            trouble, volumes = f"it cannot be looked at: {error.strerror}", []
        if trouble:
            click.echo(f"kept: the volumes in {place.path}: {trouble}")
        elif volumes:
            places[place] = volumes
    if not places:
        return
    click.echo("these volumes and snapshots of claims hold data that nothing else has:")
    for path in (path for volumes in places.values() for path in volumes):
        click.echo(f"  {path}")
    if sys.stdin.isatty() and click.confirm("remove them too?"):
        for place in places:
            place.purge()
        return
    for place in places:
        click.echo(f"volumes stay in {place.path}: remove them by hand, once nothing in them is needed")


def _leave(settings: Settings, operators: Settings, role: Role | None, *, purge: bool) -> None:
    """Take this host out of its cluster, of which kvedge's daemon must not run as a part any more.

    `settings` are those that it ran with, `operators` without what an installation has written.
    """
    from kvedge.appliance.cluster.cluster_leave import leave_cluster, leave_node
    from kvedge.appliance.cluster.cluster_node import places_here, unload_launcher_image
    from kvedge.network.errors import NetworkError
    from kvedge.network.lan.node_lans import remove_node_lans

    places = places_here(operators)
    # An installation knows its node's name even while no kubelet runs here.
    node = settings.effective_node_name if role else places.node
    own = _own_kubeconfigs(settings, operators, role)
    if role or own:
        leave_node(own, node, click.echo, _warn)
    leave_cluster(operators, node, click.echo, _warn, was_server=role == "server", purge=purge)
    if role:
        unload_launcher_image(places, _warn)
        try:
            remove_node_lans()
        except NetworkError as error:
            _warn(f"guests' links to networks of the LAN are left: {error}")


def _own_kubeconfigs(settings: Settings, operators: Settings, role: Role | None) -> list[Path]:
    """By which this host may speak of its own Node: its handler's, and the administrator's where that is here."""
    own = [health_source(settings, role)[0]] if role else []
    admin = administrator_kubeconfig(operators)
    return [path for path in [*own, *([admin] if admin else [])] if path.is_file()]


def _refuse_to_leave_guests(settings: Settings, here: Role, chosen: Role) -> None:
    """Another part runs Pods in another role: guests of this one would be left alone."""
    names = _guests_of_box(settings) if here == "standalone" else _guests_of_node(settings)
    if names:
        raise Refused(
            f"this host is installed as {here}, and VMs run on it: {', '.join(names)}; stop them before it becomes"
            f" {chosen}",
            Exit.HOST,
        )


def _refuse_while_guests_run(settings: Settings) -> None:
    """In a cluster, Pods are the kubelet's to end; launchers run from the files that would go."""
    if names := _guests_of_node(settings):
        raise Refused(
            f"VMs run on this node: {', '.join(names)}; stop them, or move them away with `kubectl drain"
            f" {settings.effective_node_name} --ignore-daemonsets --delete-emptydir-data`, and run it again",
            Exit.HOST,
        )


def _guests_of_box(settings: Settings) -> list[str]:
    """By their launchers, else by the records of their Pods, to which no program's place matters."""
    from kvedge.appliance.host.running_launchers import running_launchers
    from kvedge.standalone.agent.agent_removal import running_pods
    from kvedge.standalone.agent.pod.pod_record import PodRecordError

    kubelet = settings.box_kubelet_path
    try:
        return running_launchers(settings.data_path, kubelet) or running_pods(kubelet / "pods")
    except PodRecordError as error:
        raise Refused(str(error), Exit.HOST) from error


def _guests_of_node(settings: Settings) -> list[str]:
    from kvedge.appliance.host.running_launchers import running_launchers
    from kvedge.cli.host.role_services import kubelet_directory

    return running_launchers(settings.data_path, kubelet_directory(settings))


def _own_file() -> Path:
    if not is_frozen():
        raise Refused("this is a checkout: build the one file with packaging/build, and run that", Exit.USAGE)
    return Path(str(getattr(sys, "kvedge_file")))  # noqa: B009 - set by the frozen program only


def _refuse_strangers(settings: Settings) -> None:
    """A typing error must not cost anybody's files."""
    from kvedge.appliance.install.data_directory import strangers

    # The one that the installed units work in is kvedge's, also before anything has run there.
    installed = load_settings(None, {}, {})
    is_installed = role_here(installed) is not None and settings.data_path.resolve() == installed.data_path.resolve()
    if not is_installed and (names := strangers(settings.data_path)):
        raise Refused(
            f"{settings.data_path} is no data directory of kvedge's, and not empty: {', '.join(names[:_NAMED])}; name"
            " the right one with --data-dir, or in the settings",
            Exit.USAGE,
        )


def _warn(text: str) -> None:
    click.echo(text, err=True)


def _need_root(verb: str) -> None:
    if os.geteuid() != 0:
        raise Refused(f"kvedge {verb} needs root", Exit.HOST)
