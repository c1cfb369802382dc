"""An informer that a test feeds, with the real cache behind it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kvedge.kube.object_cache import ObjectCache


class FedCache:
    """An informer that a test feeds."""

    def __init__(self) -> None:
        self._cache: ObjectCache[Any] = ObjectCache()
        self._callbacks: list[Callable[[Any, Any], None]] = []
        for name in ("get", "list", "find_indexed", "add_index"):
            setattr(self, name, getattr(self._cache, name))
        self.version = 1

    def find_owned_by(self, uid: str) -> Any:
        return self._cache.find_indexed("owner", uid)

    def on_change(self, callback: Callable[[Any, Any], None]) -> None:
        self._callbacks.append(callback)

    def observe(self, item: Any) -> None:
        self._cache.take_own(item)

    def feed(self, item: Any, gone: bool = False) -> None:
        item = copy.deepcopy(item)
        self.version += 1
        item.metadata.resource_version = str(self.version)
        old = self._cache.get(item.metadata.namespace, item.metadata.name)
        self._cache.take(item, gone)
        for callback in self._callbacks:
            callback(old, None if gone else item)
