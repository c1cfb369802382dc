"""The `format` and `pattern` of a schema's strings, read as the API server's Go libraries read them.

Called by structural_schema and crd_rules. Pure.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from kvedge.resources.values.whole_numbers import whole_number
from kvedge.standalone.apiserver.wire import name_rules

_POSIX: Final = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:blank:]": r" \t",
    "[:punct:]": r"!-/:-@\[-`{-~",
}
_HEX: Final = "[0-9a-f]"
_UUID_BODY: Final = {"": f"{_HEX}{{4}}-?{_HEX}{{4}}", "3": f"3{_HEX}{{3}}-?{_HEX}{{4}}"} | {
    digit: f"{digit}{_HEX}{{3}}-?[89ab]{_HEX}{{3}}" for digit in "45"
}
_HOSTNAME: Final = re.compile(
    r"(?=.{1,253}\Z)([a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?)(\.[a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?)*"
)
_EMAIL: Final = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_MAC: Final = re.compile(
    r"(?i)([0-9a-f]{2}([:-])[0-9a-f]{2}(\2[0-9a-f]{2}){4}((\2[0-9a-f]{2}){2})?|([0-9a-f]{4}\.){2,3}[0-9a-f]{4})"
)
_DURATION: Final = re.compile(
    r"[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)\s*(ns|us|µs|μs|ms|s|m|h|d|w|[a-z]*(seconds?|minutes?|hours?|days?|weeks?)))+|0"
)
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?([Zz]|[+-]\d\d:?\d\d)?")
_HEX_COLOR: Final = re.compile("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_RGB_COLOR: Final = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")

INTEGER_FORMATS: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
NUMBER_FORMATS: Final = frozenset({"float", "double"})
FLOAT32_MAX: Final = 3.4028234663852886e38


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""A Go (RE2) pattern as Python matches it: `$` is the end of the text, `\z` and POSIX classes are known.

    Raises:
        re.error: when it cannot be read, or uses what only RE2 knows.
    """
    return re.compile(_python_pattern(pattern))


def string_format_of(name: str) -> Callable[[str], bool] | None:
    """The check behind a format's name; None for a name that means nothing to the API server, which ignores it."""
    return _CHECKS.get(name.replace("-", ""))


def _python_pattern(pattern: str) -> str:
    parts, at, in_class = [], 0, False
    while at < len(pattern):
        piece = pattern[at]
        if piece == "\\":
            piece = pattern[at : at + 2]
            parts.append(r"\Z" if piece == r"\z" else piece)
        elif in_class and (posix := next((name for name in _POSIX if pattern.startswith(name, at)), None)):
            piece = posix
            parts.append(_POSIX[posix])
        else:
            if in_class:
                # A bracket that comes first in a class stands for itself, and so does an opening one anywhere.
                in_class = piece != "]" or pattern[at - 1] == "[" or pattern[at - 2 : at] == "[^"
                piece_text = r"\[" if piece == "[" else piece
            else:
                in_class = piece == "["
                piece_text = r"\Z" if piece == "$" else piece
            parts.append(piece_text)
        at += len(piece)
    return "".join(parts)


def _make_match(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _make_check(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _parse_date_time(text: str) -> None:
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(text)
    # Nanoseconds are more than datetime holds, and a leap second is more than it knows.
    datetime.fromisoformat(re.sub(r"[.,]\d+", "", text).upper().replace(":60", ":59"))


def _parse_date(text: str) -> None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise ValueError(text)
    date.fromisoformat(text)


def _parse_base64(text: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(text) from error


def _parse_cidr(text: str) -> None:
    if "/" not in text or whole_number(text.rpartition("/")[2], (0, 128)) is None:
        raise ValueError(text)
    ipaddress.ip_interface(text)


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return (bool(parts.scheme) or text.startswith("/")) and not re.search(r"[\s\x00-\x1f]", text)


def _rgb(text: str) -> bool:
    found = _RGB_COLOR.fullmatch(text)
    return found is not None and all(int(number) <= 255 for number in found.groups())


def _uuid(digit: str) -> re.Pattern[str]:
    return re.compile(f"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?{_UUID_BODY[digit]}-?{_HEX}{{12}}")


# By name without dashes. isbn, creditcard and the like are formats of the API server too, but none of ours: ignored.
_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _make_match(re.compile("[0-9a-fA-F]{24}")),
    "byte": _make_check(_parse_base64),
    "cidr": _make_check(_parse_cidr),
    "date": _make_check(_parse_date),
    "datetime": _make_check(_parse_date_time),
    "duration": _make_match(_DURATION),
    "email": _make_match(_EMAIL),
    "hexcolor": _make_match(_HEX_COLOR),
    "hostname": _make_match(_HOSTNAME),
    "ipv4": _make_check(ipaddress.IPv4Address),
    "ipv6": _make_check(ipaddress.IPv6Address),
    "k8slongname": lambda text: not name_rules.dns_subdomain(text),
    "k8sshortname": lambda text: not name_rules.dns_label(text),
    "mac": _make_match(_MAC),
    "password": lambda text: True,
    "rgbcolor": _rgb,
    "uri": _uri,
    "uuid": _make_match(_uuid("")),
    "uuid3": _make_match(_uuid("3")),
    "uuid4": _make_match(_uuid("4")),
    "uuid5": _make_match(_uuid("5")),
}
