"""`kvedge standalone|controller|api|handler|node`: the long-running roles.

Called by the group. Each is a list of services that runs until SIGTERM.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.garbage import collect_as_usual
from kvedge.cli.host.box_settings import operators_settings, refuse_kubelet_dir
from kvedge.runtime.last_exit import EXIT_SECONDS
from kvedge.runtime.logs import set_up_logs
from kvedge.runtime.services import Service, ServiceError, ServiceRunner
from kvedge.runtime.settings import Settings, load_settings, setting_facts

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


def _setting(key: str) -> Callable[[F], F]:
    """The option of a setting, its help from the table of settings."""
    facts = next(facts for facts in setting_facts() if facts.key == key)
    return click.option(f"--{key}", help=f"{facts.description} [{facts.default}].")


_COMMON: Final = [CONFIG, _setting("data-dir"), _setting("node-name"), _setting("log-level")]
_BOX: Final = [
    _setting("bind"),
    _setting("port"),
    _setting("pod-cidr"),
    _setting("service-cidr"),
    _setting("load-balancer-pool"),
    _setting("insecure-registries"),
    _setting("dedicated-cpus"),
    _setting("launcher-start"),
    _setting("volume-places"),
    _setting("volume-overcommit"),
    _setting("write-kubeconfig"),
]
_CONSOLE: Final = [_setting("console-address"), _setting("console-certificate"), _setting("console-key")]
_APART: Final = [_setting("kubeconfig")]
_AS_NODE: Final = [_setting("node-kubeconfig")]
_EMULATION: Final = [_setting("emulation")]
_KUBELET: Final = [_setting("kubelet-dir")]


def _options(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _settings(config: Path | None, values: dict[str, Any]) -> Settings:
    settings = load_settings(config_path(config), os.environ, values)
    # gRPC's C core writes lines of its own form into our log, about every connection that ends as it should.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    set_up_logs(settings.log_level)
    return settings


def _run(services: Sequence[Service]) -> None:
    # New files of a role are for root alone unless their writer says otherwise.
    os.umask(0o022)
    collect_as_usual()
    try:
        ServiceRunner(services, exit_seconds=EXIT_SECONDS).run()
    except ServiceError as error:
        raise Refused(f"{error.service}: {error.detail}", Exit.HOST) from error


def _need_root(role: str) -> None:
    if os.geteuid() != 0:
        raise Refused(f"kvedge {role} needs root: it makes namespaces, links and device nodes", Exit.HOST)


def _need_reach() -> None:
    """A program that launchers cannot run is told now, instead of by an event of each VM."""
    from kvedge.appliance.host.program_reach import find_closed_library, find_unreachable
    from kvedge.runtime.program import program_command, program_directories, program_libraries, program_package

    directories, libraries = program_directories(), program_libraries()
    found = find_unreachable(program_command()[0], directories, program_package(), libraries)
    if found is not None:
        raise Refused(str(found), Exit.HOST)
    if (doubtful := find_closed_library(directories, libraries)) is not None:
        log.warning("a library cannot be read by launchers", extra={"facts": {"detail": doubtful.fault}})


@click.command()
@_options([*_COMMON, *_BOX, *_CONSOLE, *_EMULATION])
def standalone(config: Path | None, **values: Any) -> None:
    """Run a whole node without Kubernetes: API, node agent, controller, api and handler in one process."""
    _need_root("standalone")
    settings = _settings(config, values)
    _need_reach()
    from kvedge.appliance.install.unpacked_trees import OldVersions
    from kvedge.cli.host.role_services import console_services
    from kvedge.standalone.standalone_services import standalone_services

    refuse_kubelet_dir(operators_settings(config, **values))
    services = [*standalone_services(settings), OldVersions(settings.data_path, settings.box_kubelet_path / "pods")]
    services += console_services(settings)
    click.echo(f"kubeconfig: {settings.user_kubeconfig}")
    _run(services)


@click.command()
@_options([*_COMMON, *_APART, *_EMULATION])
def controller(config: Path | None, **values: Any) -> None:
    """Run the controller against a cluster; one of several works, elected by a Lease."""
    settings = _settings(config, values)
    from kvedge.cli.host.role_services import controller_services

    _run(controller_services(settings))


@click.command()
@_options([*_COMMON, *_APART, *_CONSOLE, _setting("api-address")])
def api(config: Path | None, **values: Any) -> None:
    """Run admission and subresources for a cluster."""
    settings = _settings(config, values)
    from kvedge.cli.host.role_services import api_services, server_console_services

    _run([*api_services(settings), *server_console_services(settings)])


@click.command()
@_options(
    [
        *_COMMON,
        *_APART,
        *_AS_NODE,
        *_EMULATION,
        *_KUBELET,
        _setting("relay-address"),
    ]
)
def handler(config: Path | None, **values: Any) -> None:
    """Run the handler of this node for a cluster."""
    _need_root("handler")
    settings = _settings(config, values)
    _need_reach()
    from kvedge.cli.host.role_services import handler_services

    _run(handler_services(settings))


@click.command()
@_options(
    [
        *_COMMON,
        *_APART,
        *_AS_NODE,
        *_EMULATION,
        *_KUBELET,
        *_CONSOLE,
        _setting("api-address"),
        _setting("relay-address"),
        _setting("node-roles"),
    ]
)
def node(config: Path | None, **values: Any) -> None:
    """Run controller, api and handler in one process, for a cluster."""
    _need_root("node")
    settings = _settings(config, values)
    _need_reach()
    from kvedge.cli.host.role_services import node_services

    _run(node_services(settings))
