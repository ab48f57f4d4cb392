"""A store that takes one durable step and whose answer never arrives: the step is there, and its caller does not know.

It is put in place in a process that does one job, below everything that settles such answers.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omnigraph import counters
from omnigraph.errors import StoreUnavailable
from omnigraph.storage.objects.local import LocalFiles
from omnigraph.storage.objects.remote import RemoteObjects
from omnigraph.storage.tables import immediate, staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What Lance says when a connection breaks.
TEXT = "error sending request: the answer was lost"
_DISK = ("write", "create", "replace", "delete", "delete_all", "delete_prefix", "stage")
_BUCKET = ("_put", "delete", "delete_all", "delete_prefix")


class LostAnswer:
    """Counts durable steps, and loses the answer to the one of this number."""

    def __init__(self, step: int) -> None:
        self._left = step
        self._is_next = False
        self.happened = False

    def arm(self) -> None:
        """From here on, in this process and until it ends."""
        self._follow(counters, self._count)
        self._follow(staging, self._table_committed)
        for kind, names in ((LocalFiles, _DISK), (RemoteObjects, _BUCKET)):
            for name in names:
                setattr(kind, name, self._answered(getattr(kind, name)))
        vars(immediate)["lance_errors"] = self._lance_errors(immediate.lance_errors)

    def _follow(self, module: Any, then: Callable[[str], None]) -> None:
        reach = module.reach

        def followed(name: str) -> None:
            reach(name)
            then(name)

        module.reach = followed

    def _count(self, name: str) -> None:
        if name != "store.write":
            return
        self._left -= 1
        self._is_next = self._left == 0

    def _table_committed(self, name: str) -> None:
        if name == "table.committed" and self._take():
            raise OSError(TEXT)

    def _answered(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def answered(*arguments: Any, **named: Any) -> Any:
            done = act(*arguments, **named)
            if self._take():
                raise StoreUnavailable(f"{TEXT}. If this was a write, it may have been applied.")
            return done

        return answered

    def _lance_errors(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def errors(*arguments: Any) -> Iterator[None]:
            with original(*arguments):
                yield
                if self._take():
                    raise OSError(TEXT)

        return errors

    def _take(self) -> bool:
        taken, self._is_next = self._is_next, False
        self.happened = self.happened or taken
        return taken
