"""Which launchers may be copies of a warm parent, and how long a parent that failed is done without. Pure.

Called by `warm_starts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.runtime.linux.shown_words import join_words
from kvedge.standalone.agent.container.container_spec import ContainerSpec
from kvedge.standalone.agent.warm.warm_words import ARGUMENT_ROOM, ENVIRONMENT_ROOM

# The parent takes as much memory as two launchers save: it pays from the third on.
PAYS_BESIDE: Final = 2
_VERB: Final = ("launcher", "--monitor")
# What the interpreter, the C library and the libraries of a launcher read before its own code can set it.
_READ_AT_START: Final = (
    *("PYTHON", "LD_", "GLIBC_", "MALLOC_", "LC_", "LANG", "LIBVIRT_", "GRPC_", "G_", "GNUTLS_", "OPENSSL_"),
    *("PROTOCOL_BUFFERS_", "KVEDGE_MONITOR"),
)
_LONGEST_PAUSE: Final = 300.0


class OwnProgram(Struct, frozen=True):
    """This very program: its command line without a verb, and the host's directories that it needs."""

    command: Sequence[str]
    directories: Sequence[str]


def may_be_warm(spec: ContainerSpec, program: OwnProgram) -> bool:
    """Whether a container's command is the launcher of this very program, with nothing that a copy could not have."""
    begin = [*program.command, *_VERB]
    # A root user's rights are what exec(2) makes of them.
    is_launcher = spec["argv"][: len(begin)] == begin and spec["uid"] != 0
    return is_launcher and _has_program(spec, program) and not _is_read_at_start(spec["env"]) and _has_room(spec)


def _has_program(spec: ContainerSpec, program: OwnProgram) -> bool:
    """Whether exec(2) in the container would find the host's files: a user's Pod may name the command, too."""
    there = {
        mount["target"]
        for mount in spec["mounts"]
        if mount["source"] == mount["target"] and mount["read_only"] and not mount["sub_path"]
    }
    return there.issuperset(program.directories)


def _has_room(spec: ContainerSpec) -> bool:
    words = join_words(spec["argv"])
    variables = join_words(f"{name}={value}" for name, value in spec["env"].items())
    return len(words) <= ARGUMENT_ROOM and len(variables) <= ENVIRONMENT_ROOM


def _is_read_at_start(environment: Mapping[str, str]) -> bool:
    return any(name.startswith(_READ_AT_START) for name in environment)


def pause_after(failures: int) -> float:
    """Seconds until another parent is tried after so many that failed."""
    return float(min(_LONGEST_PAUSE, 2**failures)) if failures else 0.0
