"""Switches as virtctl's users write them, and names that a shell completes."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvedge.cli import group
from kvedge.cli.verb_command import VerbCommand, complete_snapshots, object_argument
from tests.support.scripted_api import Exchange, scripted_api


@click.command(cls=VerbCommand)
@click.argument("words", nargs=-1)
@click.option("--dry-run", is_flag=True)
@click.option("--wait/--no-wait", default=True)
@click.option("--name", default="")
def verb(words: tuple[str, ...], dry_run: bool, wait: bool, name: str) -> None:
    click.echo(f"{words} {dry_run} {wait} {name}")


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["--dry-run", "web"], "('web',) True True "),
        (["--dry-run=true", "web"], "('web',) True True "),
        (["web", "--dry-run=false"], "('web',) False True "),
        (["--dry-run=T", "--wait=0"], "() True False "),
        (["--name=--dry-run=true"], "() False True --dry-run=true"),
        (["--", "--dry-run=true"], "('--dry-run=true',) False True "),
    ],
)
def test_a_switch_may_carry_a_value(arguments: list[str], output: str) -> None:
    assert CliRunner().invoke(verb, arguments).output == f"{output}\n"


def test_a_switch_is_on_or_off() -> None:
    found = CliRunner().invoke(verb, ["--dry-run=maybe"])
    assert found.exit_code == 2
    assert "Option '--dry-run' is on or off: 'maybe' is neither." in found.output


@pytest.mark.parametrize("verb", ["bundle", "image", "state", "user"])
def test_the_help_of_a_verb_with_verbs_cuts_no_sentence(verb: str) -> None:
    told = CliRunner().invoke(group.kvedge, [verb, "--help"])
    assert told.exit_code == 0
    assert "Commands:" in told.output
    assert "..." not in told.output.partition("Commands:")[2]


def test_snapshots_of_the_vm_that_was_typed_are_offered(tmp_path: Path) -> None:
    def answer(exchange: Exchange) -> None:
        asked.append(exchange.request.path.partition("?")[0])
        of = [("before", "web"), ("after", "web"), ("before-db", "db")]
        items = [{"metadata": {"name": name}, "spec": {"source": {"name": vm}}} for name, vm in of]
        exchange.answer(200, {"items": items})

    asked: list[str] = []
    with scripted_api(answer) as server:
        context = click.Context(click.Command("restore"))
        context.params = {"kubeconfig": str(server.write_kubeconfig(tmp_path / "kubeconfig")), "vm": "web"}
        parameter = click.Argument(["name"])
        assert [item.value for item in complete_snapshots(context, parameter, "")] == ["after", "before"]
        assert [item.value for item in complete_snapshots(context, parameter, "bef")] == ["before"]
        # So are objects of kinds of which there are few.
        context.params |= {"kind": "vmclone"}
        verb = click.command()(object_argument("name", "kind")(lambda: None))
        offered = verb.params[0].shell_complete(context, "bef")
        assert [item.value for item in offered] == ["before", "before-db"]
    assert asked[-1] == "/apis/clone.kubevirt.io/v1beta1/namespaces/default/virtualmachineclones"
    assert asked[0] == "/apis/snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinesnapshots"
