"""Quantities as they are added up and shown: exact values that keep the way in which they were written.

Used by quotas and limit ranges. Pure. A sum is written as its first part was, and as short as can be without loss:
Kubernetes' canonical form, which its refusals and a quota's status have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from msgspec import Struct

from kvedge.resources.values.quantities import QuantityError, parse_quantity

_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FINEST: Final = 10**9


class Amount(Struct, frozen=True):
    """How much of something; `binary` says that it is written in powers of 1024."""

    value: Fraction
    binary: bool = False

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.value + other.value, self.binary if self.value else other.binary)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.value - other.value, self.binary if self.value else other.binary)

    def round_up(self) -> Amount:
        """In whole units."""
        return Amount(Fraction(math.ceil(self.value)), self.binary)

    @property
    def text(self) -> str:
        """As Kubernetes writes it."""
        if not self.value:
            return "0"
        if self.binary and abs(self.value) >= 1024 and self.value.denominator == 1:
            return _spell(int(self.value), 1024, _BINARY)
        # Nothing finer than a billionth is told apart.
        units = math.ceil(self.value * _FINEST)
        exponent = -9
        while units % 1000 == 0 and exponent < 18:
            units //= 1000
            exponent += 3
        return f"{units}{_DECIMAL[exponent]}"


Amounts: TypeAlias = Mapping[str, Amount]
ONE: Final = Amount(Fraction(1))
NOTHING: Final = Amount(Fraction(0))


def amount_of(value: Any) -> Amount:
    """What a quantity of a document says.

    Raises:
        QuantityError: it is none.
    """
    return Amount(parse_quantity(value), isinstance(value, str) and value.endswith("i"))


def amounts_of(named: Mapping[str, Any] | None) -> dict[str, Amount]:
    """The quantities of a document by name, without those that are none: the document's check names them."""
    found = {}
    for name, value in (named or {}).items():
        try:
            found[name] = amount_of(value)
        except QuantityError:
            continue
    return found


def total(several: Iterable[Amounts]) -> dict[str, Amount]:
    """All together, name by name."""
    found: dict[str, Amount] = {}
    for amounts in several:
        for name, amount in amounts.items():
            found[name] = found[name] + amount if name in found else amount
    return found


def largest(several: Iterable[Amounts]) -> dict[str, Amount]:
    """The largest of each name."""
    found: dict[str, Amount] = {}
    for amounts in several:
        for name, amount in amounts.items():
            if name not in found or found[name].value < amount.value:
                found[name] = amount
    return found


def join_amounts(amounts: Amounts) -> str:
    """`a=1,b=2Gi`."""
    return ",".join(f"{name}={amounts[name].text}" for name in sorted(amounts))


def _spell(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while number % base == 0 and power + 1 < len(suffixes):
        number //= base
        power += 1
    return f"{number}{suffixes[power]}"
