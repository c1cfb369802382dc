"""The click group with lazily imported verbs, and the translation of failures into exit codes.

Called by `main`. Prints.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, shell_complete

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.verbs import SECTIONS, VERBS

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_PROGRAM: Final = "kvedge"
_INTERRUPTED: Final = 130
# Set by the scripts of `kvedge completion`.
_COMPLETION: Final = "_KVEDGE_COMPLETE"


class LazyGroup(click.Group):
    """A group whose verbs are imported when they are used; help and completion of their names come from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, or None for an unknown one."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"kvedge.cli.{VERBS[cmd_name].module}")
        name = cmd_name.replace("-", "_")
        # A name that is one of Python's words ends in an underscore.
        command = getattr(module, name, None) or getattr(module, f"{name}_")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that is meant; an unknown one is told with those that are spelt alike."""
        name = args[0]
        if name == "help":
            # As cobra's programs have it: `kvedge help start`.
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            name, args = args[1], [args[1], "--help"]
        if name in VERBS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from kvedge.cli.not_yet_verbs import NOT_YET
        from kvedge.runtime.nearest_names import or_nearest

        if name in NOT_YET:
            raise Refused(f"kvedge has no {name}: {NOT_YET[name]}", Exit.USAGE)
        raise click.UsageError(f"No such command '{name}'.{or_nearest(name, VERBS)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All verbs below their headings."""
        width = max(len(name) for name in VERBS)
        for heading, verbs in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), verb.help) for name, verb in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs, and the options of the program."""
        found = [CompletionItem(name, help=verb.help) for name, verb in VERBS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _keep(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    """What stands before the verb counts for the verb."""
    if value is not None:
        ctx.meta[f"kvedge.{parameter.name}"] = value


@click.group(
    cls=LazyGroup,
    context_settings=_SETTINGS,
    help="KubeVirt's API on one box or on k3s: virtual machines from kubevirt.io/v1 manifests.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 timed out, 5 a precondition of this host.",
    # Before the verb they mean the same as after it, as in virtctl and kubectl.
    params=[
        click.Option(["--kubeconfig"], callback=_keep, expose_value=False, help="The kubeconfig to use."),
        click.Option(["--context"], callback=_keep, expose_value=False, help="The kubeconfig's context to use."),
        click.Option(["-n", "--namespace"], callback=_keep, expose_value=False, help="The namespace to work in."),
    ],
)
def kvedge() -> None:
    """The group itself does nothing."""


def run(arguments: list[str]) -> int:
    """Run a verb; whatever goes wrong becomes words on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A name in another encoding is shown as it can be, on every terminal.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            # A failed write must be told here: at the interpreter's end it would be a traceback.
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # `kvedge get … | head`: the reader has seen enough.
        _drop_output()
        return Exit.DONE
    except OSError as error:
        _drop_output()
        return _tell(f"the output cannot be written: {error.strerror or error}", Exit.FAILED)


def _run(arguments: list[str]) -> int:
    try:
        if instruction := os.environ.get(_COMPLETION):
            return shell_complete(kvedge, {}, _PROGRAM, _COMPLETION, instruction)
        # Not by its main(), which ends the process by itself for a reader that has gone.
        with kvedge.make_context(_PROGRAM, list(arguments)) as ctx:
            code = kvedge.invoke(ctx)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return Exit.USAGE
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except Refused as refused:
        return _tell(refused.text, refused.code)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last door: whatever it is becomes words, never a traceback
        from kvedge.cli.failures import explain

        explanation = explain(error)
        return _tell(explanation.text, explanation.code)
    # A verb that runs another program ends as that one did.
    return code if isinstance(code, int) else Exit.DONE


def _tell(text: str, code: int) -> int:
    if _COMPLETION in os.environ:
        # A shell that completes a word has no place for errors.
        return code
    with contextlib.suppress(OSError):
        from kvedge.client.harmless_text import harmless

        # It may name what a file, a guest or a server says of itself.
        click.echo(f"error: {harmless(text.encode(errors='replace'))}", err=True)
    return code


def _drop_output() -> None:
    """Nothing that is still buffered is tried again when the interpreter ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
