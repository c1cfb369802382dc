"""XML that a stranger has written: elements, attributes and text, and nothing that makes more of it than there is.

Called by the readers of appliances and of libvirt's domains. A document type, and with it every entity, is refused; so
is what is larger or deeper than such documents are. Namespaces are dropped: these documents have no two elements that
only their namespace tells apart. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate

from kvedge.client.vm_files.archive_errors import DamagedFile

LONGEST: Final = 8 << 20
_DEEPEST: Final = 64


class _Depth:
    def __init__(self) -> None:
        self.now = 0


def parse(content: bytes, what: str) -> Element:
    """The root of a document; `what` names it in errors.

    Raises:
        DamagedFile: it is none, or has what no honest one has.
    """
    if len(content) > LONGEST:
        raise DamagedFile(f"{what} has {len(content)} bytes; {LONGEST} are the most")
    builder, depth = TreeBuilder(), _Depth()
    parser = ParserCreate(namespace_separator="}")

    def start(name: str, attributes: dict[str, str]) -> None:
        depth.now += 1
        if depth.now > _DEEPEST:
            raise DamagedFile(f"{what} has elements {_DEEPEST} deep")
        builder.start(_bare(name), {_bare(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        depth.now -= 1
        builder.end(_bare(name))

    def refuse(*_: object) -> None:
        raise DamagedFile(f"{what} has a document type, which is not taken: it could name entities and other files")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
        root = builder.close()
    except ExpatError as error:
        raise DamagedFile(f"{what} is no XML: {error}") from error
    except (ValueError, LookupError) as error:
        raise DamagedFile(f"{what} cannot be read: {str(error)[:200]}") from error
    assert isinstance(root, Element)
    return root


def text_of(parent: Element | None, path: str) -> str:
    """The text at a path, without the space around it; empty when there is none."""
    found = None if parent is None else parent.find(path)
    return (found.text or "").strip() if found is not None else ""


def _bare(name: str) -> str:
    return name.rpartition("}")[2]
