# Tests: kvedge/cli/
"""What the command line imports before it does anything: help and completion must cost next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kvedge.cli.verbs import VERBS

# Each costs 20 ms or more, and none of them helps to print help.
_HEAVY = [
    "aiohttp",
    "asyncio",
    "cryptography",
    "grpc",
    "kubernetes",
    "libvirt",
    "psutil",
    "pycdlib",
    "pydantic",
    "pyroute2",
    "requests",
    "rich",
    "sqlite3",
    "urllib3",
    "yaml",
]

_EACH_VERB = f"""
import contextlib, io, json, sys
from kvedge.cli.group import run
from kvedge.cli.verbs import VERBS
heavy, found = {_HEAVY!r}, {{}}
for words in [[], *([verb] for verb in VERBS)]:
    with contextlib.redirect_stdout(io.StringIO()):
        code = run([*words, "--help"])
    assert code == 0, words
    loaded = [name for name in heavy if name in sys.modules]
    # Only who was first is to blame.
    heavy = [name for name in heavy if name not in loaded]
    if loaded:
        found[" ".join(words)] = loaded
json.dump(found, sys.stdout)
"""


def loaded_after(code: str) -> object:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def test_help_of_no_verb_imports_what_talks_to_servers() -> None:
    assert loaded_after(_EACH_VERB) == {}


def test_help_of_the_program_imports_no_verb() -> None:
    code = (
        "import contextlib, io, json, sys\n"
        "from kvedge.cli.group import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    run(['--help'])\n"
        "json.dump(sorted(name for name in sys.modules if name.startswith('kvedge.')), sys.stdout)"
    )
    assert loaded_after(code) == ["kvedge.cli", "kvedge.cli.exits", "kvedge.cli.group", "kvedge.cli.verbs"]


def test_the_version_is_told_without_what_talks_to_servers() -> None:
    code = (
        "import contextlib, io, json, sys\n"
        "from kvedge.cli.group import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    run(['version', '--client'])\n"
        f"json.dump([name for name in [*{_HEAVY!r}, 'msgspec'] if name in sys.modules], sys.stdout)"
    )
    assert loaded_after(code) == []


@pytest.mark.parametrize("verb", VERBS)
def test_the_line_in_the_table_is_the_first_of_the_verbs_own_help(verb: str) -> None:
    import click

    from kvedge.cli.group import kvedge

    command = kvedge.get_command(click.Context(kvedge), verb)
    assert command is not None
    assert command.help is not None
    paragraph = command.help.replace("\b", "").split("\n\n")[0]
    assert VERBS[verb].help == " ".join(paragraph.split())
