"""Which of several notes counts for a disk, a claim's name or a VM: the one that was written last, or none. Pure.

Called by the plan of recovery. A place that was away while its VM changed has old notes, and an old disk must not come
back under the name of a newer one: where the time does not decide, nothing does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

from kvedge.resources.codec import JsonObject
from kvedge.standalone.volumes.kept_manifests import KeptManifest

Named = tuple[str, str]


class FoundNote(Struct, frozen=True):
    """A note, the place that it lies in, and when it was written, in seconds: one that says the same stays as it is."""

    note: KeptManifest
    place: str = ""
    written: float = 0.0


class ClaimChoice(Struct):
    """The claims by their volumes' names; why a volume is left alone; the claims of which the disk is in doubt."""

    claims: dict[str, JsonObject] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    # Of volumes that lie in several places: the one that counts.
    places: dict[str, str] = field(default_factory=dict)
    doubtful: set[Named] = field(default_factory=set)
    told: list[str] = field(default_factory=list)


def choose_claims(notes: Iterable[FoundNote], places: Mapping[str, Collection[str]]) -> ClaimChoice:
    """What the notes of claims say of volumes; `places` has where each volume that was found lies."""
    choice = ClaimChoice()
    of_volume, of_name = defaultdict(list), defaultdict(list)
    for each in notes:
        if each.note.claim is not None:
            of_volume[each.note.volume].append(each)
    for volume, found in sorted(of_volume.items()):
        newest = _newest(found)
        if len(places.get(volume, ())) > 1:
            if len({each.place for each in newest}) > 1:
                choice.left[volume] = "it lies in several places, and its notes there are of the same time"
            choice.places[volume] = newest[0].place
        names = {_name_of(each.note.claim) for each in newest}
        if len(names) > 1:
            choice.left[volume] = f"its notes of the same time name {_join(names)}"
            choice.doubtful |= {name for name in names if name is not None}
            continue
        assert newest[0].note.claim is not None
        choice.claims[volume] = newest[0].note.claim
        if older := {_name_of(each.note.claim) for each in found} - names:
            choice.told.append(f"volume {volume}: older notes name {_join(older)}: not used")
        if (name := _name_of(newest[0].note.claim)) is not None:
            of_name[name].append(newest[0])
    for name, found in sorted(of_name.items()):
        newest = _newest(found)
        if len(newest) > 1:
            choice.doubtful.add(name)
        for each in found:
            if len(newest) > 1 and each in newest:
                choice.left[each.note.volume] = f"claim {'/'.join(name)} is noted at the same time for another one too"
            elif each is not newest[0]:
                latest = newest[0].note.volume
                choice.left[each.note.volume] = f"claim {'/'.join(name)} has a newer note, of volume {latest}"
    return choice


def choose_vms(notes: Iterable[FoundNote]) -> tuple[list[JsonObject], list[str]]:
    """The VMs, one of each name, and what is to be told of the other notes."""
    vms, told = [], []
    of_name = defaultdict(list)
    for each in notes:
        if each.note.vm is not None:
            of_name[_name_of(each.note.vm)].append(each)
    for name, found in sorted(of_name.items(), key=lambda each: each[0] or ("", "")):
        if name is None:
            # Whoever makes them tells what is wrong with each.
            vms += [each.note.vm for each in found if each.note.vm is not None]
            continue
        newest = _newest(found)
        if len(newest) > 1:
            last = max(_made_at(each) for each in newest)
            newest = [each for each in newest if _made_at(each) == last]
        kept = newest[0].note.vm
        if any(each.note.vm != kept for each in newest):
            told.append(f"VM {'/'.join(name)}: its notes of the same time differ: it is not made")
            continue
        if any(each.note.vm != kept for each in found):
            told.append(f"VM {'/'.join(name)}: an older one of that name is noted too: the latest is made")
        if kept is not None:
            vms.append(kept)
    return vms, told


def _newest(found: Sequence[FoundNote]) -> list[FoundNote]:
    last = max(each.written for each in found)
    return [each for each in found if each.written == last]


def _name_of(document: JsonObject | None) -> Named | None:
    metadata = (document or {}).get("metadata")
    if not isinstance(metadata, dict):
        return None
    space, name = metadata.get("namespace"), metadata.get("name")
    return (space, name) if space and name and isinstance(space, str) and isinstance(name, str) else None


def _made_at(found: FoundNote) -> str:
    return str(((found.note.vm or {}).get("metadata") or {}).get("creationTimestamp") or "")


def _join(names: Iterable[Named | None]) -> str:
    return ", ".join(sorted(f"claim {'/'.join(name)}" if name is not None else "no claim" for name in names))
