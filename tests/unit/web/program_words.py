"""The sentences that the console's own program says to pages, as its sources have them.

Used by the tests beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge import client, web

_WEB: Final = Path(web.__file__).parent
_CLIENT: Final = Path(client.__file__).parent
# What forms and uploads hear of the client.
_ASKED: Final = ("manifests/launch_choice.py", "manifests/launch_checks.py")
_HEARD: Final = (
    *_ASKED, "session.py", "uploads/image_upload.py", "uploads/upload_relay.py", "uploads/upload_source.py",
    "uploads/upload_stream.py", "tasks/task_rows.py", "snapshots.py", "migrations.py", "clones.py", "backups.py",
)  # fmt: skip
# Their sentences are heard by other programs than a page of ours, and by terminals.
_NOT_TO_PAGES: Final = ("request_rules.py", "console_server.py", "on_box/box_console.py")
# Where what fails says it: the place of the sentence among the arguments, from the end.
_SAYS: Final = {
    "SignInRefused": -1, "TooManyPages": -1, "RefusedError": -1, "NotFoundError": -1, "BrokenUpload": -1,
    "_failure": -1, "_bad_name": -1, "_fault": -1, "FlagError": 1,
}  # fmt: skip
_HTTP: Final = "HTTP"
# Beginnings of sentences about flags, which terminals show.
_OF_FLAGS: Final = frozenset(("--storage-class", "{} is a file or a URL, and"))


def said_sentences() -> set[str]:
    """What a page hears of a failure that is the console's own, or a form's; places are `{}`."""
    modules = [path for path in _WEB.rglob("*.py") if path.relative_to(_WEB).as_posix() not in _NOT_TO_PAGES]
    found = {text for path in [*modules, *(_CLIENT / name for name in _ASKED)] for text in _said(_parse(path))}
    # What is put together of other sentences alone, and no words.
    return {text for text in found - _OF_FLAGS if any(character.isalpha() for character in text)}


def program_sentences() -> set[str]:
    """All texts in the sources that a page may hear."""
    modules = [*_WEB.rglob("*.py"), *(_CLIENT / name for name in _HEARD)]
    return {text for path in modules for node in ast.walk(_parse(path)) for text in _text_of(node)}


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _said(module: ast.Module) -> Iterator[str]:
    named = {name: list(_text_of(value)) for name, value in _assignments(module)}
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        for said in _arguments(node):
            yield from named.get(said.id, []) if isinstance(said, ast.Name) else _text_of(said)


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in _SAYS and len(call.args) > max(_SAYS[name], 0):
        yield call.args[_SAYS[name]]
    if name.startswith(_HTTP):
        yield from (each.value for each in call.keywords if each.arg == "reason")


def _assignments(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def _text_of(node: ast.AST) -> Iterator[str]:
    """The text, with `{}` for what is put into it; both of a choice."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        yield "".join(parts)
    elif isinstance(node, ast.IfExp):
        yield from _text_of(node.body)
        yield from _text_of(node.orelse)
