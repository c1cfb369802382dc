"""Where alarms are kept: one ConfigMap in the system's namespace.

Written by the controller alone; read by it, by `kvedge alarms` and by `kvedge status`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kvedge.resources.alarms.alarm_names import ALARMS_CONFIG
from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.alarm_state import MOST_ALARMS, Alarm, State
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import ConfigMap

# What the record remembers of objects besides alarms: that a guest's agent was there, that a node had KVM.
MOST_MEMORIES: Final = 4000
_ALARMS: Final = "alarms.json"
_MEMORY: Final = "memory.json"
_LONGEST: Final = 900_000


class AlarmRecord(msgspec.Struct, frozen=True):
    """All alarms, and what has been seen before."""

    alarms: Sequence[Alarm] = ()
    memory: frozenset[str] = frozenset()

    @property
    def firing(self) -> list[Alarm]:
        """Those that are raised, the worst and then the newest first."""
        found = [alarm for alarm in self.alarms if alarm.state == State.FIRING]
        found.sort(key=lambda each: each.raised, reverse=True)
        severities = list(type(found[0].severity)) if found else []
        return sorted(found, key=lambda each: severities.index(each.severity))


def read_record(config: ConfigMap | None) -> AlarmRecord:
    """What is kept. A record that cannot be read counts as empty: alarms that still hold are raised anew."""
    data = {} if config is None else config.data
    if sum(map(len, data.values())) > _LONGEST:
        return AlarmRecord()
    try:
        alarms = msgspec.json.decode(data.get(_ALARMS, "[]"), type=list[Alarm])
        memory = msgspec.json.decode(data.get(_MEMORY, "[]"), type=list[str])
    except msgspec.DecodeError:
        return AlarmRecord()
    # A release that went back may find rules that it does not have.
    known = [alarm for alarm in alarms if alarm.rule in RULES]
    return AlarmRecord(known[:MOST_ALARMS], frozenset(memory[:MOST_MEMORIES]))


def record_data(record: AlarmRecord) -> dict[str, str]:
    """The data of the ConfigMap that keeps it; the same record gives the same text."""
    memory = sorted(record.memory)[:MOST_MEMORIES]
    return {_ALARMS: _text(record.alarms), _MEMORY: _text(memory)}


def make_config(record: AlarmRecord) -> ConfigMap:
    """The ConfigMap, to be made."""
    return ConfigMap(metadata=ObjectMeta(name=ALARMS_CONFIG, namespace=SYSTEM_NAMESPACE), data=record_data(record))


def _text(items: Iterable[object]) -> str:
    return msgspec.json.encode(list(items), order="deterministic").decode()
