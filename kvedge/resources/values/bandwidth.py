"""How fast a Pod may speak and be spoken to, as Kubernetes' annotations say it: in bits per second.

Called by admission, which refuses what cannot be, and by the node agent of one box, which plays CNI's bandwidth plugin;
in a cluster kubelet and CNI do. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from msgspec import Struct

from kvedge.resources.values.quantities import QuantityError, parse_quantity

INGRESS: Final = "kubernetes.io/ingress-bandwidth"
EGRESS: Final = "kubernetes.io/egress-bandwidth"
# Kubelets refuse what is less, and what is more.
_LEAST: Final = Fraction(1000)
_MOST: Final = Fraction(10**15)
_LONGEST_SHOWN: Final = 40


class BandwidthError(ValueError):
    """An annotation says no bandwidth: its name, and what is wrong."""

    def __init__(self, annotation: str, why: str) -> None:
        super().__init__(f"{annotation}: {why}")
        self.annotation = annotation
        self.why = why


class Bandwidth(Struct, frozen=True):
    """Bits per second towards the Pod, and from it; 0 is as fast as it goes."""

    ingress: int = 0
    egress: int = 0


def pod_bandwidth(annotations: Mapping[str, str]) -> Bandwidth:
    """What a Pod's annotations limit.

    Raises:
        BandwidthError: for the first that is no bandwidth.
    """
    return Bandwidth(ingress=bits_of(annotations, INGRESS), egress=bits_of(annotations, EGRESS))


def bits_of(annotations: Mapping[str, str], name: str) -> int:
    """Bits per second of one annotation; 0 when it is not there.

    Raises:
        BandwidthError: when it is no bandwidth.
    """
    text = annotations.get(name)
    if text is None:
        return 0
    try:
        value = parse_quantity(text)
    except QuantityError as error:
        shown = text[:_LONGEST_SHOWN]
        raise BandwidthError(name, f"{shown!r} is no quantity: use bits per second, such as 10M or 1G") from error
    if not _LEAST <= value <= _MOST:
        raise BandwidthError(name, f"{text[:_LONGEST_SHOWN]!r} is not between 1k and 1P bits per second")
    return int(value)
