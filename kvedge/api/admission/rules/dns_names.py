"""What names and labels may look like, with the complaints that Kubernetes itself makes.

Called by `*_rules` files. Pure. Each function returns the complaints about one text, none when it is fine; whoever
calls knows the field's path.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
# What is longer is no name, and no other thread runs while an expression is matched against a megabyte.
_LONGEST_MATCHED: Final = 4096


def dns_label_complaints(text: str) -> list[str]:
    """RFC 1123 label, such as a host name."""
    complaints = _longer_than(_LONGEST_LABEL, text)
    if not _is(_LABEL, text):
        complaints.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        )
    return complaints


def dns_subdomain_complaints(text: str) -> list[str]:
    """RFC 1123 subdomain, such as a domain below which a host name stands."""
    complaints = _longer_than(_LONGEST_SUBDOMAIN, text)
    if not _is(_SUBDOMAIN, text):
        complaints.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    return complaints


def label_key_complaints(text: str) -> list[str]:
    """The key of a label or of a topology: a name, perhaps behind a DNS prefix and a slash."""
    prefix, slash, name = text.rpartition("/")
    complaints = [f"prefix part {complaint}" for complaint in dns_subdomain_complaints(prefix)] if slash else []
    complaints += [f"name part {complaint}" for complaint in _longer_than(_LONGEST_LABEL, name)]
    if not _is(_KEY, name):
        complaints.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    return complaints


def label_value_complaints(text: str) -> list[str]:
    """The value of a label; empty is one."""
    complaints = _longer_than(_LONGEST_LABEL, text)
    if text and not _is(_KEY, text):
        complaints.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
            "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )
    return complaints


def _longer_than(limit: int, text: str) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _is(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= _LONGEST_MATCHED and pattern.fullmatch(text) is not None
