"""Checks of single values of the KubeVirt object, with the findings that they leave.

Used by configuration_reading.py and configuration_platform.py. Pure: a check returns what to work with, the value or
what stands for it when it cannot be used.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from kvedge.resources.configuration.configuration import Finding, Issue
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_quantity

_LABEL_KEY: Final = re.compile(
    r"(?:[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


class Checks:
    """Findings, in the order in which they were made."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def note_invalid(self, path: str, message: str) -> None:
        """A value that cannot be used."""
        self.findings.append(Finding(Issue.INVALID, path, f"{path}: {message}"))

    def whole(self, path: str, value: int | None, default: int, least: int, most: int) -> int:
        """A whole number within bounds, or the default."""
        if value is None or least <= value <= most:
            return default if value is None else value
        self.note_invalid(path, f"{value} is not between {least} and {most}")
        return default

    def seconds(self, path: str, text: str | None, default: float, most: float) -> float:
        """A duration from 0 on, in seconds, or the default."""
        if text is None:
            return default
        try:
            found = parse_duration(text)
        except DurationError as error:
            self.note_invalid(path, f"{error}; give one such as 1m30s")
            return default
        if 0 <= found <= most:
            return found
        self.note_invalid(path, f"{text} is not between 0s and {most:g}s")
        return default

    def level(self, path: str, value: int | None) -> int | None:
        """A verbosity from 0 to 9, or None."""
        if value is None or 0 <= value <= 9:
            return value
        self.note_invalid(path, f"{value} is not between 0 and 9")
        return None

    def labels(self, path: str, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """The labels that a node may have."""
        for key, value in given.items():
            if _LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value):
                yield key, value
            else:
                self.note_invalid(f"{path}[{key}]", f"{key}={value} is no label")

    def amount(self, path: str, value: Quantity | None, *, above_zero: bool) -> Fraction | None:
        """A quantity from 0 on, or above it; None when there is none."""
        if value is None:
            return None
        try:
            amount = parse_quantity(value)
        except QuantityError as error:
            self.note_invalid(path, str(error))
            return None
        if amount < 0 or (above_zero and not amount):
            self.note_invalid(
                path, f"{value} must be more than 0" if above_zero else f"{value} must not be less than 0"
            )
            return None
        return amount

    def network(self, path: str, text: str) -> str:
        """A network in CIDR notation, or empty."""
        if not text:
            return ""
        try:
            if "/" not in text:
                raise ValueError("kvedge's handlers are no Pods, and join no NetworkAttachmentDefinition")
            return str(ipaddress.ip_network(text, strict=False))
        except ValueError as error:
            self.note_invalid(path, f"{error}; give the network of the nodes' interfaces, such as 10.5.0.0/24")
            return ""

    def ratio(self, path: str, text: str | None, most: int) -> Fraction:
        """A decimal number from 1 on, or 1; worded as KubeVirt words it."""
        if text is None:
            return Fraction(1)
        if not re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", text):
            self.note_invalid(path, f"ratio provided, {text}, cannot be parsed into float")
            return Fraction(1)
        ratio = Fraction(text)
        if 1 <= ratio <= most:
            return ratio
        problem = "smaller than 1.0" if ratio < 1 else f"larger than {most}"
        self.note_invalid(path, f"ratio provided, {text}, cannot be {problem}")
        return Fraction(1)
