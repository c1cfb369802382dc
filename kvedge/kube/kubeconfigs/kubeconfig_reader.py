"""The one reader of kubeconfigs: a file as a document, its named entries, and the files that it names.

Called by `connection_settings`, by clients, which merge several, and by :mod:`.own_kubeconfig`. Reads the file that it
is given. What parses YAML is imported then: most calls of the command line end before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

CLUSTERS: Final = "clusters"
CONTEXTS: Final = "contexts"
USERS: Final = "users"
SECTIONS: Final = (CLUSTERS, CONTEXTS, USERS)
_FILE_KEYS: Final = {
    CLUSTERS: ("certificate-authority",),
    USERS: ("client-certificate", "client-key", "tokenFile"),
}


class KubeconfigError(Exception):
    """A kubeconfig cannot be used; the text names the file and what is wrong with it."""


def read_kubeconfig(path: str | Path) -> dict[str, Any]:
    """The document in a file; what it says is not checked yet.

    Raises:
        KubeconfigError: when the file cannot be read, which is its cause then, or holds something else.
    """
    try:
        document = parse_kubeconfig(Path(path).read_bytes())
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from error
    except KubeconfigError as error:
        raise KubeconfigError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: is not a kubeconfig")
    return document


def parse_kubeconfig(content: bytes) -> object:
    """What a file's content says, which may be anything.

    Raises:
        KubeconfigError: saying what it is instead.
    """
    import yaml

    # The loader in C is ten times as fast, and not there in every build.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(content.decode("utf-8"), Loader=loader)
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"is not UTF-8 text: {error}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # ValueError: what looks like a date or a number, and is none.
        raise KubeconfigError(f"is not YAML: {error}") from error


def entries(document: dict[str, Any], section: str) -> list[dict[str, Any]]:
    """The named entries of a section; whatever else stands there is left out."""
    found = document.get(section)
    return (
        [entry for entry in found if isinstance(entry, dict) and entry.get("name")] if isinstance(found, list) else []
    )


def values_of(document: dict[str, Any], section: str, name: object) -> dict[str, Any] | None:
    """What the one entry of that name says; None when there is none, more than one, or something odd in its place."""
    found = [entry for entry in entries(document, section) if entry["name"] == name]
    values = found[0].get(_inner(section)) if len(found) == 1 else None
    return values if isinstance(values, dict) else None


def file_keys(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each place that may name a file, whether it does or not: the values of an entry, and the key among them."""
    for section, keys in _FILE_KEYS.items():
        for entry in entries(document, section):
            values = entry.get(_inner(section))
            if isinstance(values, dict):
                for key in keys:
                    yield values, key


def _inner(section: str) -> str:
    """An entry of `users` says what it has to say below `user`."""
    return section.removesuffix("s")
