"""Kubernetes' grammar of names, DNS names, label keys and label values: patterns, lengths, complaints.

Used by the api role's and the embedded API's rules. Both make their complaints of these: their words differ where
KubeVirt's and Kubernetes' do (bytes or characters, dots in a label), the grammar does not. Pure.
"""

from __future__ import annotations

import re
from typing import Final

LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253

_LABEL_FMT: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FMT: Final = _LABEL_FMT + r"(\." + _LABEL_FMT + ")*"
_KEY_FMT: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE_FMT: Final = "(" + _KEY_FMT + ")?"

LABEL: Final = re.compile(_LABEL_FMT)
SUBDOMAIN: Final = re.compile(_SUBDOMAIN_FMT)
KEY: Final = re.compile(_KEY_FMT)
LABEL_VALUE: Final = re.compile(_LABEL_VALUE_FMT)


def is_label(text: str) -> bool:
    """Whether it is an RFC 1123 label, its length included."""
    return len(text) <= LABEL_LENGTH and LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether it is an RFC 1123 subdomain, as most objects are named by, its length included."""
    return len(text) <= SUBDOMAIN_LENGTH and SUBDOMAIN.fullmatch(text) is not None


def too_long(limit: int, unit: str = "characters") -> str:
    """The complaint about a text longer than `limit`. Newer rules of Kubernetes count bytes, older ones characters."""
    return f"must be no more than {limit} {unit}"


def pattern_complaint(message: str, pattern: str, *examples: str) -> str:
    """A complaint that shows the pattern, and examples that fit it."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} ({'e.g. ' + shown if examples else ''}regex used for validation is '{pattern}')"


NO_LABEL: Final = pattern_complaint(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL_FMT,
    "my-name",
    "123-abc",
)
NO_SUBDOMAIN: Final = pattern_complaint(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN_FMT,
    "example.com",
)
NO_KEY: Final = pattern_complaint(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _KEY_FMT,
    "MyName",
    "my.name",
    "123-abc",
)
NO_LABEL_VALUE: Final = pattern_complaint(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _LABEL_VALUE_FMT,
    "MyValue",
    "my_value",
    "12345",
)
