"""What the node's libvirt must be for some devices: kvedge runs with 9.0 (Debian 12) and newer.

Used by the elements that need more than that. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError

# As libvirt counts them: major * 1,000,000 + minor * 1,000 + release.
PVPANIC_ON_PCI: Final = 9_001_000
IGB: Final = 9_003_000
DISCARD_GRANULARITY: Final = 9_006_000
SEVERAL_IO_THREADS: Final = 10_000_000
SEV_SNP: Final = 10_005_000
TLB_FLUSH_DETAILS: Final = 11_000_000
MSDM_TABLE: Final = 11_002_000
TDX: Final = 11_006_000


def require_libvirt(context: DomainContext, version: int, field: str, otherwise: str) -> None:
    """Raises:
    ConversionError: naming the field when the node's libvirt is older; `otherwise` is what to use instead.
    """
    if context.libvirt_version < version:
        detail = f"needs libvirt {_text(version)}, and this node has {_text(context.libvirt_version)}"
        raise ConversionError(field, detail, otherwise)


def _text(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}"
