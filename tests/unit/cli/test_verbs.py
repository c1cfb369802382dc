"""The command line without a server: help, usage, exit codes, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import kvedge
from kvedge.cli import group
from kvedge.cli.exits import Exit
from kvedge.cli.not_yet_verbs import NOT_YET
from kvedge.cli.verbs import VERBS
from kvedge.client import kubeconfigs
from kvedge.client.tables import columns, table_rows
from tests.support.needs import NEEDS_ROOT


def kvedge_cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    found = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment}
    return subprocess.run(
        [sys.executable, "-m", "kvedge", *arguments], capture_output=True, text=True, check=False, env=found, timeout=60
    )


def test_version_is_told_without_a_server() -> None:
    done = kvedge_cli("version")
    assert (done.returncode, done.stdout) == (0, f"Client Version: kvedge {kvedge.__version__}\n")


def test_the_version_is_told_where_the_boxs_kubeconfig_is_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    # A directory cannot be read as a file by root either.
    monkeypatch.setattr(kubeconfigs, "PLACES", (str(tmp_path),))
    done = CliRunner().invoke(group.kvedge, ["version"])
    assert (done.exit_code, done.stdout) == (0, f"Client Version: kvedge {kvedge.__version__}\n")
    assert "the server is not asked" in done.stderr
    assert CliRunner().invoke(group.kvedge, ["version", "--server"]).exit_code != 0


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    # A process for each takes seconds; what help imports is looked at in test_imports.py.
    done = CliRunner().invoke(group.kvedge, [verb, "--help"], prog_name="kvedge")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("Usage: kvedge " + verb)


def test_help_is_a_word_too() -> None:
    assert kvedge_cli("help").stdout == kvedge_cli("--help").stdout
    assert kvedge_cli("help", "start").stdout == kvedge_cli("start", "--help").stdout
    assert "Did you mean pause" in kvedge_cli("help", "pasue").stderr


# What `virtctl --help` of 2026 lists.
VIRTCTL = [
    *("addvolume", "adm", "completion", "console", "create", "credentials", "evacuate-cancel", "expand", "expose"),
    *("fslist", "guestfs", "guestosinfo", "help", "image-upload", "memory-dump", "migrate", "migrate-cancel"),
    *("objectgraph", "pause", "permitted-devices", "port-forward", "removevolume", "reset", "restart", "scp"),
    *(
        "soft-reboot",
        "ssh",
        "start",
        "stop",
        "template",
        "unpause",
        "usbredir",
        "userlist",
        "version",
        "vmexport",
        "vnc",
    ),
]


def test_each_verb_of_virtctl_is_there_or_refused_by_name() -> None:
    assert {*VIRTCTL} <= {*VERBS, *NOT_YET, "help"}
    assert not {*VERBS} & {*NOT_YET}
    done = kvedge_cli("template", "list")
    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith("error: kvedge has no template: there are no templates of VMs: `kvedge launch ")
    assert "`kvedge clone VM [TARGET]` clones a VM" in kvedge_cli("create", "clone", "--name", "x").stderr


def test_the_program_names_its_exit_codes() -> None:
    text = " ".join(kvedge_cli("--help").stdout.split())
    words = ("done", "failed", "usage", "not found", "timed out", "a precondition of this host")
    assert ", ".join(f"{code.value} {word}" for code, word in zip(Exit, words, strict=True)) in text


def test_the_launcher_has_help_of_its_own() -> None:
    assert "--grace-period-seconds" in kvedge_cli("launcher", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["strat", "web"], Exit.USAGE, "No such command", id="an unknown verb"),
        pytest.param(["get", "vm"], Exit.USAGE, "no kubeconfig", id="no kubeconfig"),
        pytest.param(["get", "vm", "--kubeconfig", "/none"], Exit.USAGE, "cannot be read", id="a missing kubeconfig"),
        pytest.param(["apply", "-f", "/none.yaml"], Exit.FAILED, "/none.yaml: cannot be read", id="a missing manifest"),
        pytest.param(
            *(["standalone", "--port", "99999"], Exit.USAGE, "port: 99999"), id="a port out of range", marks=NEEDS_ROOT
        ),
        pytest.param(
            *(["standalone", "--data-dir", "x"], Exit.USAGE, "absolute path"),
            id="a relative data directory",
            marks=NEEDS_ROOT,
        ),
        pytest.param(["vnc", "web"], Exit.HOST, "install a VNC viewer", id="no viewer"),
        pytest.param(["spice", "web"], Exit.HOST, "apt install virt-viewer", id="no SPICE viewer"),
        pytest.param(["spice", "web", "--viewer", "/none"], Exit.HOST, "/none is not there", id="no such viewer"),
        pytest.param(
            ["rdp", "web", "--user", "ann", "--proxy-only"], Exit.USAGE, "leave it out", id="an RDP user for nobody"
        ),
        pytest.param(
            ["rdp", "web", "--user", "ann", "--viewer", "true"], Exit.USAGE, "FreeRDP alone", id="a user to no FreeRDP"
        ),
        pytest.param(["rdp", "web"], Exit.HOST, "install FreeRDP", id="no RDP viewer"),
        pytest.param(["rdp", "web", "--viewer", "/none"], Exit.HOST, "/none is not there", id="no such RDP viewer"),
        pytest.param(["vnc", "web", "--vnc-path", "/none"], Exit.HOST, "/none is not there", id="a viewer that is not"),
        pytest.param(["vnc", "web", "--vnc-type", "x"], Exit.USAGE, "is not one of", id="an unknown viewer"),
        pytest.param(["usbredir", "1:2", "web"], Exit.HOST, "usbredirect is not on this computer", id="no usbredirect"),
        pytest.param(["usbredir", "stick", "web"], Exit.USAGE, "'stick' is no device", id="no USB device"),
        pytest.param(["usbredir", "web"], Exit.USAGE, "name a device and a VMI", id="a guest without a device"),
        pytest.param(
            *(["usbredir", "--no-launch", "1:2", "web"], Exit.USAGE, "name a VMI alone"),
            id="a device of another client",
        ),
        pytest.param(["stop", "web", "--force"], Exit.USAGE, "go together", id="half of a forced stop"),
        pytest.param(["launcher", "--name", "x"], Exit.USAGE, "--namespace", id="a launcher without identity"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy_and_an_exit_code(arguments: list[str], code: int, words: str) -> None:
    done = kvedge_cli(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n"
    )
    done = kvedge_cli("get", "vm", KUBECONFIG=str(config))
    assert done.returncode == Exit.FAILED
    assert "is `kvedge standalone` running?" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_shows_the_columns_that_were_asked_for() -> None:
    table = {
        "columnDefinitions": [{"name": "Name"}, {"name": "Age"}, {"name": "Node", "priority": 1}],
        "rows": [
            {"cells": ["web", "5s", "edge"], "object": {"metadata": {"namespace": "shop"}}},
            {"cells": ["database", None, True], "object": {"metadata": {"namespace": "default"}}},
        ],
    }
    assert columns(table_rows(table, wide=False, with_namespace=False)) == [
        "NAME       AGE",
        "web        5s",
        "database",
    ]
    wide = columns(table_rows(table, wide=True, with_namespace=True))
    assert wide[0] == "NAMESPACE   NAME       AGE   NODE"
    assert wide[2] == "default     database         true"
