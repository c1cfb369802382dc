"""What a name, a label, a key or a port may look like, in Kubernetes' own words.

Called by selectors, the rows of kinds, structural_schema and crd_rules. Pure. Each function returns the list of
complaints about one string, empty when it is fine; the caller knows the field's path.
"""

from __future__ import annotations

import re
from typing import Final

from kvedge.resources.values.name_grammar import (
    KEY,
    LABEL,
    LABEL_LENGTH,
    LABEL_VALUE,
    NO_KEY,
    NO_LABEL,
    NO_LABEL_VALUE,
    NO_SUBDOMAIN,
    SUBDOMAIN,
    SUBDOMAIN_LENGTH,
    pattern_complaint,
    too_long,
)

_DNS1035_FMT: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_CONFIG_KEY_FMT: Final = "[-._a-zA-Z0-9]+"
_ENV_NAME_FMT: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"

_DNS1035: Final = re.compile(_DNS1035_FMT)
_CONFIG_KEY: Final = re.compile(_CONFIG_KEY_FMT)
_ENV_NAME: Final = re.compile(_ENV_NAME_FMT)
_PORT_NAME: Final = re.compile("[-a-z0-9]+")

PORT_NAME_LENGTH: Final = 15


def between(low: int, high: int) -> str:
    """The complaint about a number outside of `low` … `high`."""
    return f"must be between {low} and {high}, inclusive"


def dns_label(value: str) -> list[str]:
    """RFC 1123 label: namespaces, containers, volumes, lists of names."""
    complaints = [too_long(LABEL_LENGTH)] if len(value) > LABEL_LENGTH else []
    if not LABEL.fullmatch(value):
        complaints.append("must not contain dots" if SUBDOMAIN.fullmatch(value) else NO_LABEL)
    return complaints


def dns_subdomain(value: str) -> list[str]:
    """RFC 1123 subdomain: the names of most objects."""
    complaints = [too_long(SUBDOMAIN_LENGTH)] if len(value) > SUBDOMAIN_LENGTH else []
    return complaints + ([] if SUBDOMAIN.fullmatch(value) else [NO_SUBDOMAIN])


def dns1035_label(value: str) -> list[str]:
    """RFC 1035 label: services, and the names inside of a CRD."""
    complaints = [too_long(LABEL_LENGTH)] if len(value) > LABEL_LENGTH else []
    if not _DNS1035.fullmatch(value):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        complaints.append(pattern_complaint(message, _DNS1035_FMT, "my-name", "abc-123"))
    return complaints


def path_segment(value: str) -> list[str]:
    """What fits into a URL's path: the names of objects whose kind asks for nothing else."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{mark}'" for mark in ("/", "%") if mark in value]


def label_key(value: str) -> list[str]:
    """A label key, and whatever else is a "qualified name": `name` or `prefix.example/name`."""
    parts = value.split("/")
    if len(parts) > 2:
        return [f"a valid label key {NO_KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    complaints = []
    if len(parts) == 2:
        complaints += [
            f"prefix part {text}" for text in (dns_subdomain(parts[0]) if parts[0] else ["must be non-empty"])
        ]
    name = parts[-1]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > LABEL_LENGTH:
        complaints.append("name part " + too_long(LABEL_LENGTH, "bytes"))
    if not KEY.fullmatch(name):
        complaints.append("name part " + NO_KEY)
    return complaints


def label_value(value: str) -> list[str]:
    """A label's value; it may be empty."""
    complaints = [too_long(LABEL_LENGTH, "bytes")] if len(value) > LABEL_LENGTH else []
    return complaints + ([] if LABEL_VALUE.fullmatch(value) else [NO_LABEL_VALUE])


def config_key(value: str) -> list[str]:
    """A key in the data of a ConfigMap or Secret: it becomes a file's name."""
    complaints = [too_long(SUBDOMAIN_LENGTH)] if len(value) > SUBDOMAIN_LENGTH else []
    if not _CONFIG_KEY.fullmatch(value):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        complaints.append(pattern_complaint(message, _CONFIG_KEY_FMT, "key.name", "KEY_NAME", "key-name"))
    return complaints + _directory_words(value)


def env_name(value: str) -> list[str]:
    """The name of an environment variable."""
    complaints = []
    if not _ENV_NAME.fullmatch(value):
        message = (
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
            "and must not start with a digit"
        )
        complaints.append(pattern_complaint(message, _ENV_NAME_FMT, "my.env-name", "MY_ENV.NAME", "MyEnvName1"))
    return complaints + _directory_words(value)


def port_name(value: str) -> list[str]:
    """The name of a container's port (an IANA service name)."""
    complaints = [too_long(PORT_NAME_LENGTH)] if len(value) > PORT_NAME_LENGTH else []
    if not _PORT_NAME.fullmatch(value):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in value:
        complaints.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return complaints


def port_number(value: int) -> list[str]:
    """A TCP or UDP port."""
    return [] if 1 <= value <= 65535 else [between(1, 65535)]


def _directory_words(value: str) -> list[str]:
    if value in {".", ".."}:
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []
