"""Prints what the server's Table answers hold, in columns as kubectl does.

Called by `get`. Pure but for the printing that its callers do.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvedge.resources.codec import JsonObject

TABLE_ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def table_rows(table: JsonObject, *, wide: bool, with_namespace: bool, kind: str = "") -> list[list[str]]:
    """Header and rows as text; columns of a priority above zero only when `wide`."""
    columns = [index for index, item in enumerate(table["columnDefinitions"]) if wide or not item.get("priority")]
    header = [table["columnDefinitions"][index]["name"].upper() for index in columns]
    rows = [header if not with_namespace else ["NAMESPACE", *header]]
    for row in table.get("rows") or ():
        cells = [_text(row["cells"][index]) for index in columns]
        if kind:
            cells[0] = f"{kind}/{cells[0]}"
        if with_namespace:
            cells.insert(0, row.get("object", {}).get("metadata", {}).get("namespace", ""))
        rows.append(cells)
    return rows


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with three blanks between the columns, as wide as their widest cell."""
    if not rows:
        return []
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return str(cell)
