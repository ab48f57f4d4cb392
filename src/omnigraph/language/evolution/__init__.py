"""Schema evolution: the plan of steps from an accepted schema to a desired one."""

from __future__ import annotations

from omnigraph.language.evolution.plan import ColumnChange, MigrationPlan, TableChange, plan_evolution
from omnigraph.language.evolution.steps import LINTS, DataCheck, Lint, Step

__all__ = ["LINTS", "ColumnChange", "DataCheck", "Lint", "MigrationPlan", "Step", "TableChange", "plan_evolution"]
