"""Tables that delete their own old versions: a setting that earlier releases gave them, and that has to go.

With it, Lance collects old versions after some of the commits, whoever makes them, and knows nothing of the graph's
branches, tags and kept commits. Only `cleanup` may collect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance import LanceOperation, Transaction

from omnigraph.store.staging import Staged

if TYPE_CHECKING:
    from omnigraph.store.tables import Table

_SETTING = "lance.auto_cleanup."


def cleans_itself(table: Table) -> bool:
    """Whether a table has the setting; nothing is asked of the store."""
    return bool(_settings(table))


def stage_disarm(table: Table) -> Staged:
    """Take the setting away. The commit that does it collects nothing any more."""
    update = LanceOperation.UpdateMap(dict.fromkeys(_settings(table)))
    return Staged(table, "configure", Transaction(table.version, LanceOperation.UpdateConfig(config_updates=update)))


def _settings(table: Table) -> list[str]:
    return [name for name in table.dataset.config() if name.startswith(_SETTING)]
