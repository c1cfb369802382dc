"""A verb as virtctl's users type it, and arguments that complete to names.

Used by the verbs that virtctl has too. Touches nothing but the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

# Values that Go's flag package takes for a boolean.
_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})
# The kinds that users of one box have to do with; the server is not asked for a word in the making.
_SNAPSHOTS: Final = ("virtualmachinesnapshots", "/apis/snapshot.kubevirt.io/v1beta1")
# Kinds of which there are few enough to be offered, besides VMs and VMIs: resource, and path of the group.
_OFFERED: Final = {
    "vmsnapshot": _SNAPSHOTS,
    "vmrestore": ("virtualmachinerestores", _SNAPSHOTS[1]),
    "vmclone": ("virtualmachineclones", "/apis/clone.kubevirt.io/v1beta1"),
}
_KINDS: Final = (
    *("vm", "vmi", "vmirs", "vmpool", "pods", "nodes", "services", "events", "configmaps", "secrets", "namespaces"),
    *(
        "leases",
        "persistentvolumeclaims",
        "kubevirts",
        "vmim",
        "vmsnapshot",
        "vmrestore",
        "vmclone",
        "vmcf",
        "vmcp",
        "vmf",
        "vmp",
        "migrationpolicies",
        "ipaddresses",
        "customresourcedefinitions",
    ),
)


class VerbGroup(click.Group):
    """A verb with verbs of its own, whose help shows the whole first sentence of each."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, (command.help or "").partition("\n\n")[0]) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class VerbCommand(click.Command):
    """A command whose switches may carry a value: `--dry-run=true`, as virtctl's examples have it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `=true` off, and switches with `=false` out."""
        end = args.index("--") if "--" in args else len(args)
        switches = {
            name: option.secondary_opts
            for option in self.params
            if isinstance(option, click.Option) and option.is_flag
            for name in option.opts
            if name.startswith("--")
        }
        plain: list[str] = []
        for word in args[:end]:
            name, equals, value = word.partition("=")
            if name not in switches or not equals:
                plain.append(word)
            elif value.lower() in _TRUE:
                plain.append(name)
            elif value.lower() in _FALSE:
                plain += switches[name][:1]
            else:
                raise click.BadOptionUsage(name, f"Option '{name}' is on or off: {value!r} is neither.", ctx)
        return super().parse_args(ctx, plain + args[end:])


def vm_argument(name: str, **more: Any) -> Callable[[F], F]:
    """An argument that is the name of a VM."""
    return click.argument(name, shell_complete=_complete("virtualmachines"), **more)


def vmi_argument(name: str, **more: Any) -> Callable[[F], F]:
    """An argument that is the name of a VMI."""
    return click.argument(name, shell_complete=_complete("virtualmachineinstances"), **more)


def claim_argument(name: str, **more: Any) -> Callable[[F], F]:
    """An argument that is the name of a claim."""
    return click.argument(name, shell_complete=_complete("persistentvolumeclaims", "/api/v1"), **more)


def network_argument(name: str, **more: Any) -> Callable[[F], F]:
    """An argument that is the name of a network."""
    complete = _complete("network-attachment-definitions", "/apis/k8s.cni.cncf.io/v1")
    return click.argument(name, shell_complete=complete, **more)


def snapshot_argument(name: str, **more: Any) -> Callable[[F], F]:
    """An argument that is the name of a snapshot, of the VM that the argument `vm` names."""
    return click.argument(name, shell_complete=complete_snapshots, **more)


def complete_snapshots(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of snapshots of the VM that has been typed."""
    from kvedge.cli.completions import names_of

    vm = ctx.params.get("vm")
    names = names_of(ctx, *_SNAPSHOTS, where=lambda item: vm is None or item["spec"]["source"]["name"] == vm)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def target_argument(name: str, **more: Any) -> Callable[[F], F]:
    """An argument of the form type/name, with the user before it where that has a meaning."""
    return click.argument(name, shell_complete=_complete_target, **more)


def kind_argument(name: str, **more: Any) -> Callable[[F], F]:
    """An argument that is a kind of object."""
    return click.argument(name, shell_complete=_complete_kind, **more)


def object_argument(name: str, kind: str, **more: Any) -> Callable[[F], F]:
    """An argument that is the name of an object of the kind that the argument `kind` names."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from kvedge.cli.completions import names_of
        from kvedge.client.errors import UsageError
        from kvedge.client.subresources import resource_of

        named = str(ctx.params.get(kind) or "")
        try:
            names = names_of(ctx, *_OFFERED[named]) if named in _OFFERED else names_of(ctx, resource_of(named))
        except UsageError:
            # Of other kinds there may be very many.
            return []
        return [CompletionItem(found) for found in names if found.startswith(incomplete)]

    return click.argument(name, shell_complete=complete, **more)


def _complete_kind(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in _KINDS if kind.startswith(incomplete)]


def _complete(
    resource: str, group: str = "/apis/kubevirt.io/v1"
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from kvedge.cli.completions import names_of

        return [CompletionItem(name) for name in names_of(ctx, resource, group) if name.startswith(incomplete)]

    return complete


def _complete_target(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    user, at, rest = incomplete.rpartition("@")
    kind, slash, _ = rest.partition("/")
    if not slash:
        return [CompletionItem(f"{user}{at}{found}/") for found in ("vm", "vmi") if found.startswith(kind)]
    from kvedge.cli.completions import names_of
    from kvedge.client.errors import UsageError
    from kvedge.client.subresources import resource_of

    try:
        names = names_of(ctx, resource_of(kind))
    except UsageError:
        return []
    found = [f"{user}{at}{kind}/{name}" for name in names]
    return [CompletionItem(item) for item in found if item.startswith(incomplete)]
