"""A mapping that keeps the most recently used entries, so that what a process remembers stays bounded."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """`room`: how much it may hold, as `weigh` counts; by default the number of entries. The newest always stays."""

    def __init__(self, room: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._room = room
        self._weigh = weigh
        self._weight = 0

    def get(self, key: K) -> V | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: K, value: V) -> V:
        if (before := self._kept.pop(key, None)) is not None:
            self._weight -= self._weigh(before)
        self._kept[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._room and len(self._kept) > 1:
            self._weight -= self._weigh(self._kept.popitem(last=False)[1])
        return value
