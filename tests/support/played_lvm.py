"""lvm2 as the thin driver asks for it, played: a volume group in memory, with reports in the form of lvm2 2.03.16.

A verb or an option that real runs in a guest have not shown is refused. What a real pool does is tested in
tests/machine/volumes/test_thin_driver.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import field

from kvedge.storage.volumes.lvm_programs import LvmPrograms, ProgramError
from kvedge.storage.volumes.lvm_report import LogicalVolume, look_at_all, mapper_name, restrict_to

_NO_VALUE = ("-a", "-y")
_EXTENT = 4 << 20


class PlayedLvm(LvmPrograms, frozen=True):
    """One group `ssd` on /dev/sdb, with the pool `thin`; `rows` are those of `lvs` by name."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    ran: list[tuple[str, ...]] = field(default_factory=list)
    group: dict[str, str] = field(default_factory=lambda: {"uuid": "the-group", "device": "/dev/sdb"})

    @classmethod
    def with_pool(cls, data: str = "10.00", metadata: str = "5.00") -> PlayedLvm:
        """A group with an empty pool of 1 GiB, and a volume of somebody else's."""
        made = cls()
        made.add("thin", 1 << 30, layout="thin,pool", data=data, metadata=metadata)
        made.add("foreign", 1 << 20, pool="thin")
        return made

    def add(
        self, name: str, size: int, *, tags: str = "", pool: str = "", layout: str = "thin,sparse", **percents: str
    ) -> None:
        """Have a volume there."""
        self.rows[name] = {
            "vg_missing_pv_count": "0",
            "lv_name": name,
            "lv_uuid": f"uuid-of-{name}",
            "lv_size": str(size),
            "lv_tags": tags,
            "pool_lv": pool,
            "lv_layout": layout,
            "lv_kernel_minor": str(len(self.ran) + 10),
            "lv_suspended": "",
            "data_percent": percents.get("data", "0.00"),
            "metadata_percent": percents.get("metadata", ""),
            "lv_health_status": "",
            "lv_check_needed": "",
            "zero": "zero" if "pool" in layout else "",
        }

    def node_of(self, group: str, volume: LogicalVolume) -> Path:
        """The name alone: there is no device."""
        return Path("/dev/mapper", mapper_name(group, volume.name))

    def run(self, *words: str) -> str:
        """One call of a program."""
        verb, options, plain = words[0], *_parse(words[1:])
        everywhere, own = look_at_all(), restrict_to([self.group["device"]])
        if options["--config"] not in ([everywhere] if verb == "vgs" else [own]):
            # Its disks are not among those that lvm2 may look at.
            raise ProgramError(f'{verb}: Volume group "ssd" not found')
        if verb == "vgs":
            row = {"vg_name": "ssd", "vg_uuid": self.group["uuid"], "pv_name": self.group["device"]}
            return json.dumps({"report": [{"vg": [row]}]})
        if verb == "lvs":
            found = [{"vg_uuid": self.group["uuid"], **row} for row in self.rows.values()]
            return json.dumps({"report": [{"lv": found}]})
        self.ran.append(words)
        getattr(self, f"_{verb}")(options, [word.removeprefix("ssd/") for word in plain])
        return ""

    def _lvcreate(self, options: dict[str, str], plain: list[str]) -> None:
        name = options["--name"]
        assert name not in self.rows
        origin = self.rows.get(plain[0])
        size = options.get("--virtualsize", "").removesuffix("b") or (origin or {})["lv_size"]
        self.add(name, _whole_extents(int(size)), tags=options["--addtag"], pool="thin")
        if options.get("--setactivationskip") == "y":
            self.rows[name]["lv_kernel_minor"] = "-1"

    def _lvrename(self, options: dict[str, str], plain: list[str]) -> None:
        _, old, new = plain
        assert new not in self.rows
        self.rows[new] = {**self.rows.pop(old), "lv_name": new}

    def _lvremove(self, options: dict[str, str], plain: list[str]) -> None:
        (name,) = plain
        if self.rows.pop(name, None) is None:
            raise ProgramError(f'lvremove: Failed to find logical volume "ssd/{name}"')

    def _lvextend(self, options: dict[str, str], plain: list[str]) -> None:
        size = _whole_extents(int(options["--size"].removesuffix("b")))
        row = self.rows[plain[0]]
        assert size > int(row["lv_size"]), "lvextend refuses what is no growth"
        row["lv_size"] = str(size)

    def _lvchange(self, options: dict[str, str], plain: list[str]) -> None:
        row = self.rows[plain[0]]
        tags = set(row["lv_tags"].split(",")) - set(options.get("--deltag", "").split(","))
        row["lv_tags"] = ",".join(sorted({*tags, *options.get("--addtag", "").split(",")} - {""}))
        if "--activate" in options:
            row["lv_kernel_minor"] = "-1" if options["--activate"] == "n" else "42"
        if "--refresh" in options:
            row["lv_suspended"] = ""


def _whole_extents(size: int) -> int:
    return -(-size // _EXTENT) * _EXTENT


def _parse(words: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Options with their values, those that come again with commas between them, and what is no option."""
    options: dict[str, str] = {}
    plain: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in (*_NO_VALUE, "--nosuffix", "--refresh", "--ignoreactivationskip"):
            options[word] = ""
        elif word.startswith("-"):
            value = left.pop(0)
            options[word] = f"{options[word]},{value}" if word in options else value
        else:
            plain.append(word)
    return options, plain
