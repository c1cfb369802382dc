"""`kvedge adm log-verbosity`: how much the roles log, as virtctl has it.

Called by the group. Reads and changes the KubeVirt object; prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup

if TYPE_CHECKING:
    from kvedge.client.session import Session
    from kvedge.resources.types.kubevirt import KubeVirt

_SHOW: Final = "show"
_ALL: Final = "all"
_MOST: Final = 9


@click.group(cls=VerbGroup)
def adm() -> None:
    """Settings of the whole installation, as virtctl has them."""


def _check_level(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A number from 0 to 9, or the word that stands for a flag without one."""
    if value is not None and value != _SHOW and not (value.isascii() and value.isdecimal() and int(value) <= _MOST):
        raise click.BadParameter(f"log verbosity must be 0-{_MOST}", ctx, param)
    return value


def _level(name: str, help_: str) -> click.Option:
    return click.Option(
        [f"--{name}"], callback=_check_level, is_flag=False, flag_value=_SHOW, metavar="[=0-9]", help=help_
    )


@adm.command(
    "log-verbosity",
    params=[
        _level("virt-api", "That of the api role."),
        _level("virt-controller", "That of the controller."),
        _level("virt-handler", "That of handlers."),
        _level("virt-launcher", "That of launchers."),
        _level("virt-operator", "That of KubeVirt's operator."),
        _level(_ALL, "That of all of them."),
    ],
)
@session_options
@click.option("--reset", is_flag=True, help="Go back to the default, 2; levels of single nodes go too.")
def log_verbosity(kubeconfig: Path | None, namespace: str | None, reset: bool, **levels: str | None) -> None:
    """Show or set how much the roles log, in the KubeVirt object.

    A flag without a number shows the level. 0 and 1 are warnings, 2 and 3 tell what happens, from 4 on there is
    everything. kvedge's launchers log always the same, and it has no operator.

    \b
    kvedge adm log-verbosity --all
    kvedge adm log-verbosity --virt-handler=7
    kvedge adm log-verbosity --reset --virt-handler=7
    """
    from kvedge.client.log_verbosity import FIELDS, WITHOUT_EFFECT, make_patch, read_verbosity
    from kvedge.kube.patches import MergePatch
    from kvedge.resources.codec import encode
    from kvedge.resources.types.kubevirt import KubeVirt

    asked = {name.replace("_", "-"): level for name, level in levels.items() if level is not None}
    shown = {name for name, level in asked.items() if level == _SHOW}
    if not asked and not reset:
        raise Refused("no flag specified - expecting at least one flag", Exit.USAGE)
    if reset and _ALL in asked:
        raise Refused("--reset and --all exclude each other", Exit.USAGE)
    if shown and (reset or len(shown) < len(asked)):
        raise Refused("only show or set is allowed", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    found = _find_kubevirt(session)
    if shown:
        levels_now = read_verbosity(encode(found))
        for name in sorted(FIELDS if _ALL in shown else shown):
            click.echo(f"{name}={levels_now[name]}")
        return
    everything = dict.fromkeys(FIELDS, asked[_ALL]) if _ALL in asked else {}
    wanted = {name: int(level or 0) for name, level in {**everything, **asked}.items() if name != _ALL}
    meta = found.metadata
    session.client.patch(KubeVirt, meta.namespace, meta.name, MergePatch(make_patch(wanted, reset=reset)))
    click.echo("successfully set/reset the log verbosity")
    for name in sorted(WITHOUT_EFFECT & asked.keys()):
        click.echo(f"{name}: without effect in kvedge", err=True)


def _find_kubevirt(session: Session) -> KubeVirt:
    from kvedge.resources.types.kubevirt import KubeVirt

    found = session.client.list(KubeVirt)
    if len(found) != 1:
        raise Refused("there is no KubeVirt object, or more than one", Exit.NOT_FOUND)
    return found[0]
