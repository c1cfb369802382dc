"""Values of virtctl's compound flags: `src:registry/image:tag,name:root,bootorder:1`.

Called by `create vm`. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from kvedge.client.errors import ClientError, FlagError
from kvedge.resources.values.name_grammar import is_label


class VolumeParams(Struct, frozen=True):
    """One volume that was asked for; an empty name and no boot order when none was given."""

    src: str
    name: str = ""
    boot_order: int | None = None


def parse_params(flag: str, text: str, known: Collection[str]) -> dict[str, str]:
    """`key:value,key:value`; a value may have colons.

    Raises:
        UsageError: for what is no such pair, or a key that the flag does not know.
    """
    found = {}
    for pair in text.split(","):
        key, colon, value = pair.partition(":")
        if not colon:
            raise flag_error(flag, f"params need to have at least one colon: {pair}")
        found[key.strip().lower()] = value.strip()
    unknown = [f"{key}:{value}" for key, value in found.items() if key not in known]
    if unknown:
        raise flag_error(flag, f"unknown param(s): {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return found


def parse_volume(flag: str, text: str) -> VolumeParams:
    """A `src`, and perhaps `name` and `bootorder`.

    Raises:
        UsageError: naming the flag and what is wrong.
    """
    params = parse_params(flag, text, ("src", "name", "bootorder"))
    if not params.get("src"):
        raise flag_error(flag, "src must be specified")
    name = params.get("name", "")
    if name and not is_label(name):
        raise flag_error(flag, f'invalid name "{name}": use lower case letters, digits and "-", as in my-name')
    return VolumeParams(params["src"], name, _boot_order(flag, params))


def check_volumes(flag: str, names: Iterable[str], orders: Iterable[int]) -> None:
    """Whether nothing is there twice.

    Raises:
        UsageError: naming what is.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise flag_error(flag, f'there is already a volume with name "{name}"')
        seen.add(name)
    taken: set[int] = set()
    for order in orders:
        if order in taken:
            raise flag_error(flag, f"bootorder {order} was specified multiple times")
        taken.add(order)


def flag_error(flag: str, why: str) -> ClientError:
    """A refusal in virtctl's words."""
    return FlagError(flag, why, f'failed to parse "--{flag}" flag: {why}')


def _boot_order(flag: str, params: dict[str, str]) -> int | None:
    text = params.get("bootorder")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 4:
        raise flag_error(flag, f'failed to parse param "bootorder": {text!r} is no number')
    if int(text) < 1:
        raise flag_error(flag, "bootorder must be greater than 0")
    return int(text)
