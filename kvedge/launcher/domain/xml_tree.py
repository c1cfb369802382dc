"""Small words for building XML elements, so that no document is ever glued from strings.

Used by every file of this folder. Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.resources.vmi_facts import character_not_in_xml

Scalar = str | int | None


def new(tag: str, **attributes: Scalar) -> Element:
    """A root element; attributes that are None are left out."""
    return _fill(Element(tag), attributes)


def add(parent: Element, tag: str, text: str | int | None = None, /, **attributes: Scalar) -> Element:
    """A child element, appended; attributes that are None are left out, integers are written in decimal.

    A trailing underscore is taken off an attribute's name, so that Python's own words can be used: `type_`, `id_`.

    Raises:
        ConversionError: when a value holds a character that XML cannot hold.
    """
    element = _fill(SubElement(parent, tag), attributes)
    if text is not None:
        element.text = _check(str(text), tag)
    return element


def switch(on: bool) -> str:
    """libvirt's word for a feature that is on or off."""
    return "on" if on else "off"


def yes_no(value: bool) -> str:
    """libvirt's word for a property that is there or not."""
    return "yes" if value else "no"


def text_of(root: Element) -> str:
    """The document, indented by two, with a final newline."""
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _fill(element: Element, attributes: dict[str, Scalar]) -> Element:
    for name, value in attributes.items():
        if value is not None:
            element.set(name.rstrip("_"), _check(str(value), f"{element.tag}/@{name}"))
    return element


def _check(text: str, where: str) -> str:
    # ElementTree would write it as it is, and libvirt refuse the whole document.
    found = character_not_in_xml(text)
    if found is None:
        return text
    raise ConversionError(
        "spec.domain",
        f"the value for the domain's {where} holds the character {found}, which XML cannot hold",
        "remove control characters from the manifest's strings",
    )
