"""What the VMIs of a ReplicaSet are called.

Used by the controller, which makes them, and by admission, which refuses names that cannot be. Pure. KubeVirt has the
API server end the names at random. Here the set's UID and a number make the end: a controller that has not seen yet
what it, or one before it, has made tries the same name again, and finds it taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet

# As many characters as Kubernetes puts behind a generateName, of its alphabet: none makes a word.
SUFFIX_LENGTH: Final = 5
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def base_name(replica_set: VirtualMachineInstanceReplicaSet) -> tuple[str, str]:
    """With what the names begin, and the field that says so."""
    template = replica_set.spec.template
    if template is not None and template.metadata.name:
        return template.metadata.name, "spec.template.metadata.name"
    if template is not None and template.metadata.generate_name:
        return template.metadata.generate_name, "spec.template.metadata.generateName"
    return replica_set.metadata.name, "metadata.name"


def free_names(
    replica_set: VirtualMachineInstanceReplicaSet,
    wanted: int,
    is_taken: Callable[[str], bool],
    first: Sequence[str] = (),
) -> Iterator[str]:
    """Names of the set that nobody has; those of `first` come before all others."""
    base, _ = base_name(replica_set)
    given = {name for name in first[:wanted] if not is_taken(name)}
    yield from sorted(given)
    number = 0
    while len(given) < wanted:
        name = base + _suffix(replica_set.metadata.uid, number)
        number += 1
        if name not in given and not is_taken(name):
            given.add(name)
            yield name


def _suffix(uid: str, number: int) -> str:
    digest = int.from_bytes(hashlib.sha256(f"{uid}/{number}".encode()).digest()[:8], "big")
    letters = []
    for _ in range(SUFFIX_LENGTH):
        digest, letter = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)
