"""How the vCPUs of an instance type are shown to the guest: as sockets, cores or threads.

Used where types are applied, and by admission. Pure. Works on specs of instance types and preferences as documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.codec import JsonObject

SOCKETS: Final = "sockets"
CORES: Final = "cores"
THREADS: Final = "threads"
SPREAD: Final = "spread"
ANY: Final = "any"
TOPOLOGIES: Final = (SOCKETS, CORES, THREADS, SPREAD, ANY)
# Older words for the same.
DEPRECATED: Final[Mapping[str, str]] = {f"prefer{name.capitalize()}": name for name in TOPOLOGIES}
ACROSS: Final[Mapping[str, Sequence[str]]] = {
    "SocketsCores": (SOCKETS, CORES),
    "CoresThreads": (CORES, THREADS),
    "SocketsCoresThreads": (SOCKETS, CORES, THREADS),
}
_DEFAULT_RATIO: Final = 2
_THREADS_PER_CORE: Final = 2


def preferred_topology(preference: JsonObject | None) -> str:
    """The topology by today's name; sockets where nothing is preferred."""
    word = ((preference or {}).get("cpu") or {}).get("preferredCPUTopology") or SOCKETS
    return DEPRECATED.get(word, word)


def spread_options(preference: JsonObject | None) -> tuple[int, str]:
    """The ratio, and across what."""
    preference = preference or {}
    options = (preference.get("cpu") or {}).get("spreadOptions") or {}
    ratio = options.get("ratio")
    if ratio is None:
        ratio = preference.get("preferSpreadSocketToCoreRatio") or _DEFAULT_RATIO
    return int(ratio), str(options.get("across") or "SocketsCores")


def indivisible(vcpus: int, preference: JsonObject | None) -> str:
    """Why so many vCPUs cannot be spread as the preference says, in KubeVirt's words; empty when they can."""
    if preferred_topology(preference) != SPREAD:
        return ""
    ratio, across = spread_options(preference)
    provided = f"{vcpus} vCPUs provided by the instance type are not divisible by the"
    if across == "SocketsCores" and (ratio < 1 or vcpus % ratio):
        return (
            f"{provided} Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of {ratio} provided"
            " by the preference"
        )
    if across == "CoresThreads" and (ratio < 1 or vcpus % ratio):
        return f"{provided} number of threads per core {ratio}"
    if across == "SocketsCoresThreads" and (ratio < 1 or vcpus % _THREADS_PER_CORE or vcpus // 2 % ratio):
        return (
            f"{provided} number of threads per core {_THREADS_PER_CORE} and Spec.PreferSpreadSocketToCoreRatio or"
            f" Spec.CPU.PreferSpreadOptions.Ratio of {ratio}"
        )
    return ""


def guest_topology(vcpus: int, preference: JsonObject | None) -> dict[str, int]:
    """Sockets, cores and threads for so many vCPUs, which :func:`indivisible` has nothing against."""
    made = {CORES: 1, SOCKETS: 1, THREADS: 1}
    if vcpus == 1:
        return made
    topology = preferred_topology(preference)
    if topology != SPREAD:
        return {**made, SOCKETS if topology == ANY else topology: vcpus}
    ratio, across = spread_options(preference)
    if across == "CoresThreads":
        return {**made, THREADS: ratio, CORES: vcpus // ratio}
    if across == "SocketsCoresThreads":
        return {THREADS: _THREADS_PER_CORE, CORES: ratio, SOCKETS: vcpus // _THREADS_PER_CORE // ratio}
    return {**made, CORES: ratio, SOCKETS: vcpus // ratio}
