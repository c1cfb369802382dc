"""Reads the kubeconfigs that count for a call, as kubectl merges them: the first file that says a thing wins.

Called by `session`. Reads files and the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from kvedge.client.errors import UsageError

# k3s writes its own where only root can read it.
PLACES: Final = ("/etc/kvedge/kubeconfig", "~/.kube/config", "/etc/rancher/k3s/k3s.yaml")
_SECTIONS: Final = ("clusters", "contexts", "users")
_FILE_KEYS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class NoKubeconfig(UsageError):
    """Nobody has named one, and none is where they usually are."""


class FoundKubeconfig(NamedTuple):
    """What was read: the files, their merged document, and the name of the context that counts."""

    paths: tuple[Path, ...]
    document: dict[str, Any]
    context: str

    @property
    def namespace(self) -> str:
        """The context's namespace."""
        found: object = next(
            (entry.get("context") for entry in _entries(self.document, "contexts") if entry["name"] == self.context), {}
        )
        return str((isinstance(found, dict) and found.get("namespace")) or "default")


def kubeconfig_paths(named: str | Path | None) -> tuple[Path, ...]:
    """`--kubeconfig`, then $KUBECONFIG (several with colons), then the usual places.

    Raises:
        NoKubeconfig: when there is none.
    """
    if named is not None:
        return (Path(named),)
    variable = [Path(item) for item in os.environ.get("KUBECONFIG", "").split(":") if item]
    if len(variable) > 1:
        # As with kubectl, those of several that are not there do not count.
        variable = [path for path in variable if os.path.exists(path)] or variable[:1]
    if variable:
        return tuple(variable)
    for place in PLACES:
        path = os.path.expanduser(place)
        if os.path.exists(path):
            return (Path(path),)
    raise NoKubeconfig(f"no kubeconfig: name one with --kubeconfig or $KUBECONFIG (looked for {', '.join(PLACES)})")


def load_kubeconfigs(paths: tuple[Path, ...], context: str | None) -> FoundKubeconfig:
    """The merged document, with `context` as its current one when that is named.

    Raises:
        UsageError: when a file cannot be read or is no kubeconfig, or when there is no such context.
    """
    merged: dict[str, Any] = {}
    for path in paths:
        document = _read(path)
        for section in _SECTIONS:
            known = {entry["name"] for entry in merged.setdefault(section, [])}
            merged[section] += [entry for entry in _entries(document, section) if entry["name"] not in known]
        for key, value in document.items():
            merged.setdefault(key, value)
    names = [str(entry["name"]) for entry in merged["contexts"]]
    if context is not None:
        if context not in names:
            raise UsageError(f'there is no context "{context}" in {_told(paths)}: {_known(names)}')
        merged["current-context"] = context
    current = merged.get("current-context")
    if not isinstance(current, str) or current not in names:
        what = f'current-context "{current}" is not one of its contexts' if current else "it has no current-context"
        raise UsageError(f"{_told(paths)}: {what}; name one with --context: {_known(names)}")
    return FoundKubeconfig(paths, merged, current)


def _read(path: Path) -> dict[str, Any]:
    import yaml

    # The loader in C is ten times as fast, and not there in every build.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except PermissionError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; run as root or name another") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text: {error}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{path}: is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path}: is not a kubeconfig")
    for section in _SECTIONS:
        for entry in _entries(document, section):
            _make_absolute(entry.get(section.removesuffix("s")), path.parent)
    return document


def _entries(document: dict[str, Any], section: str) -> list[dict[str, Any]]:
    """The named entries of a section; whatever else stands there is left out."""
    found = document.get(section)
    return (
        [entry for entry in found if isinstance(entry, dict) and entry.get("name")] if isinstance(found, list) else []
    )


def _make_absolute(values: object, directory: Path) -> None:
    """Relative file names count from the file that they stand in."""
    if isinstance(values, dict):
        for key in _FILE_KEYS:
            if isinstance(values.get(key), str) and values[key]:
                values[key] = str((directory / values[key]).absolute())


def _told(paths: tuple[Path, ...]) -> str:
    return ", ".join(map(str, paths))


def _known(names: list[str]) -> str:
    return f"there is {', '.join(names)}" if names else "it has none"
