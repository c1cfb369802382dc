"""A domain's document on its way to hook sidecars and back: how they see it, and what it must be for libvirt.

Called by `hook_calls`. Pure. libvirt judges the rest when it defines the domain.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from kvedge.launcher.hooks.hook_points import LARGEST_DOMAIN

# By these the launcher finds the domain again, and libvirt takes another one for another domain.
_KEPT: Final = ("name", "uuid")
# The tables of SMBIOS that KubeVirt's documents have, filled or not.
_TABLES: Final = ("system", "bios", "baseBoard", "chassis")


def show_domain(xml: str) -> str:
    """The document in KubeVirt's manner, for scripts that look for its text, as those of its guide do.

    Every table of SMBIOS is there, and what is empty is written with both of its tags.
    """
    document = ElementTree.fromstring(xml)
    for sysinfo in document.iterfind("sysinfo[@type='smbios']"):
        for table in _TABLES:
            if sysinfo.find(table) is None:
                ElementTree.SubElement(sysinfo, table)
    return ElementTree.tostring(document, encoding="unicode", short_empty_elements=False) + "\n"


def check_domain(before: str, answer: bytes) -> str:
    """The answer as text, when it is a document of the same domain.

    Raises:
        ValueError: when it is none; the text goes on after "answered".
    """
    if len(answer) > LARGEST_DOMAIN:
        raise ValueError(f"a document of more than {LARGEST_DOMAIN >> 20} MiB")
    if not answer.strip():
        raise ValueError("nothing; a hook that changes nothing answers the document that it got")
    # Entities can grow without end, and libvirt's documents have none.
    if b"<!DOCTYPE" in answer or b"<!ENTITY" in answer:
        raise ValueError("a document with a DOCTYPE, which a domain does not have")
    try:
        text = answer.decode()
        document = ElementTree.fromstring(text)
    except (UnicodeDecodeError, ElementTree.ParseError) as error:
        raise ValueError(f"what is no XML: {error}") from error
    if document.tag != "domain":
        raise ValueError("XML that is no <domain>")
    original = ElementTree.fromstring(before)
    for name in _KEPT:
        if (document.findtext(name) or "").strip() != (original.findtext(name) or "").strip():
            raise ValueError(f"a domain of another <{name}>, which must stay")
    return text
