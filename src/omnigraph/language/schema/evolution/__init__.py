"""Schema evolution: the plan of steps from an accepted schema to a desired one."""

from __future__ import annotations

from omnigraph.language.schema.evolution.lint import LINTS, Lint
from omnigraph.language.schema.evolution.plan import MigrationPlan, plan_evolution
from omnigraph.language.schema.evolution.steps import DataCheck, Step
from omnigraph.language.schema.evolution.tables import ColumnChange, TableChange

__all__ = ["LINTS", "ColumnChange", "DataCheck", "Lint", "MigrationPlan", "Step", "TableChange", "plan_evolution"]
