"""What names and labels may look like, with the complaints that Kubernetes itself makes.

Called by `*_rules` files. Pure. Each function returns the complaints about one text, none when it is fine. The
caller knows the field's path.
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
    too_long,
)

# A longer text is no name, and no other thread runs while an expression is matched against a megabyte.
_LONGEST_MATCHED: Final = 4096


def dns_label_complaints(text: str) -> list[str]:
    """RFC 1123 label, such as a host name."""
    return _longer_than(LABEL_LENGTH, text) + ([] if _is(LABEL, text) else [NO_LABEL])


def dns_subdomain_complaints(text: str) -> list[str]:
    """RFC 1123 subdomain, such as a domain below which a host name stands."""
    return _longer_than(SUBDOMAIN_LENGTH, text) + ([] if _is(SUBDOMAIN, text) else [NO_SUBDOMAIN])


def label_key_complaints(text: str) -> list[str]:
    """The key of a label or of a topology: a name, perhaps behind a DNS prefix and a slash."""
    prefix, slash, name = text.rpartition("/")
    complaints = [f"prefix part {complaint}" for complaint in dns_subdomain_complaints(prefix)] if slash else []
    complaints += [f"name part {complaint}" for complaint in _longer_than(LABEL_LENGTH, name)]
    return complaints + ([] if _is(KEY, name) else [f"name part {NO_KEY}"])


def label_value_complaints(text: str) -> list[str]:
    """The value of a label; empty is one."""
    return _longer_than(LABEL_LENGTH, text) + ([] if _is(LABEL_VALUE, text) else [NO_LABEL_VALUE])


def _longer_than(limit: int, text: str) -> list[str]:
    return [too_long(limit, "bytes")] if len(text.encode()) > limit else []


def _is(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= _LONGEST_MATCHED and pattern.fullmatch(text) is not None
