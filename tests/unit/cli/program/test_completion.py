# Tests: kvedge/cli/program/completion_verb.py
"""The scripts of `kvedge completion`, in a real bash where that can be had."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scripted_api import Exchange, scripted_api

_COMPLETE = """
source <("$1" completion bash)
# Outside of a real completion there is nothing to set options of.
compopt() { options+="$* "; }
COMP_LINE=$2 COMP_POINT=${#2} COMPREPLY=()
_kvedge_completion "$1"
printf '%s\\n' "${COMPREPLY[@]}" "options: $options"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "kvedge"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m kvedge "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    def two(exchange: Exchange) -> None:
        names = ("web", "worker") if "/namespaces/default/" in exchange.request.path else ()
        exchange.answer(200, {"items": [{"metadata": {"name": name}} for name in names]})

    with scripted_api(two) as api:
        yield api.write_kubeconfig(tmp_path / "kubeconfig")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kvedge sta", ["start", "status"]),
        ("kvedge start ", ["web", "worker"]),
        ("kvedge start we", ["web"]),
        ("kvedge start -n shop we", []),
        ("kvedge pause vm wo", ["worker"]),
        # bash replaces what is behind the "@" only.
        ("kvedge ssh joe@vm/we", ["vm/web"]),
        ("kvedge ssh joe@", ["vm/", "vmi/"]),
        ("kvedge port-forward vmi/wo", ["vmi/worker"]),
        ("kvedge volume resize we", ["web"]),
        ("kvedge network delete wo", ["worker"]),
        ("kvedge completion ", ["bash", "zsh", "fish"]),
        ("kvedge list --outp", ["--output"]),
        ("kvedge list -o ya", ["yaml"]),
        ("kvedge launch local/a:1 x --memory ", []),
    ],
)
def test_bash_completes_verbs_names_and_options(line: str, found: list[str], program: Path, kubeconfig: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", str(program), line],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig)},
        timeout=60,
    )
    assert done.stderr == ""
    *words, options = done.stdout.splitlines()
    assert {word for word in words if word} >= {*found}
    assert bool(found) is any(words)
    assert options == "options: "


def test_what_goes_on_behind_a_slash_gets_no_blank(program: Path, kubeconfig: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", str(program), "kvedge ssh vmi"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig)},
        timeout=60,
    )
    assert done.stdout.splitlines() == ["vmi/", "options: -o nospace "]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts_that_ask_the_program(shell: str, program: Path) -> None:
    done = subprocess.run([str(program), "completion", shell], capture_output=True, text=True, check=True, timeout=60)
    assert f"_KVEDGE_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize("line", ["kvedge apply -f ma", "kvedge scp no", "kvedge vnc screenshot web -f sc"])
def test_files_are_left_to_the_shell(line: str, program: Path, kubeconfig: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", str(program), line],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig)},
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "options: -o default "
