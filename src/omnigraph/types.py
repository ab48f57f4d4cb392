"""The types of the public API: what its methods return and take.

    from omnigraph.types import Change, ReadOptions, Snapshot

Each name imports its module when it is first used. `types.pyi` tells type checkers where the names are.
"""

from __future__ import annotations

from omnigraph.lazy import lazy_names

# In the order of the reference manual.
MODULES = {
    "Branches": "omnigraph.graph.refs",
    "Branch": "omnigraph.manifest.branches",
    "Tags": "omnigraph.graph.refs",
    "Tag": "omnigraph.manifest.tags",
    "State": "omnigraph.manifest.states",
    "Snapshot": "omnigraph.manifest.snapshot",
    "TableEntry": "omnigraph.manifest.snapshot",
    "Pin": "omnigraph.storage.tables.table",
    "CommitLog": "omnigraph.graph.refs",
    "GraphCommit": "omnigraph.manifest.rows",
    "SchemaChange": "omnigraph.manifest.rows",
    "Result": "omnigraph.query.result.result",
    "ReadOptions": "omnigraph.query.exec.limits",
    "TraversalMode": "omnigraph.query.csr.access_path",
    "Embedder": "omnigraph.query.search.vectors",
    "Explanation": "omnigraph.query.explain",
    "PlanLine": "omnigraph.query.explain",
    "Blob": "omnigraph.query.blob",
    "Engine": "omnigraph.tasks.runner",
    "Mode": "omnigraph.values.batches",
    "LoadSummary": "omnigraph.load.operation",
    "ErrorPolicy": "omnigraph.load.plan",
    "GraphDiff": "omnigraph.history.delta",
    "DiffSummary": "omnigraph.history.delta",
    "TableDelta": "omnigraph.history.delta",
    "RowLocations": "omnigraph.storage.tables.row_rewrite",
    "Entity": "omnigraph.history.entities",
    "EntityVersion": "omnigraph.history.entities",
    "EntityHistory": "omnigraph.history.entities",
    "ChangeFeed": "omnigraph.history.change_feed",
    "ChangePage": "omnigraph.history.change_feed",
    "CommitChanges": "omnigraph.history.change_feed",
    "Change": "omnigraph.history.changes",
    "EntityKind": "omnigraph.history.changes",
    "ChangeOp": "omnigraph.history.changes",
    "Image": "omnigraph.history.changes",
    "Only": "omnigraph.history.changes",
    "ChangedTable": "omnigraph.history.changes",
    "Baseline": "omnigraph.history.change_feed",
    "Merged": "omnigraph.history.merge.merge",
    "MergeKind": "omnigraph.history.merge.merge",
    "Conflict": "omnigraph.errors.commits",
    "ConflictKind": "omnigraph.errors.commits",
    "Row": "omnigraph.errors.commits",
    "Resolver": "omnigraph.history.merge.conflicts",
    "Reverted": "omnigraph.history.merge.merge",
    "Analytics": "omnigraph.spark.analytics.analytics",
    "Direction": "omnigraph.spark.analytics.frame_algorithms",
    "WrittenBack": "omnigraph.spark.analytics.analytics",
    "Catalog": "omnigraph.catalog.catalog",
    "NodeType": "omnigraph.catalog.catalog",
    "EdgeType": "omnigraph.catalog.catalog",
    "InterfaceType": "omnigraph.catalog.catalog",
    "Property": "omnigraph.catalog.catalog",
    "PropertyType": "omnigraph.catalog.catalog",
    "ScalarName": "omnigraph.catalog.catalog",
    "Annotation": "omnigraph.catalog.catalog",
    "Cardinality": "omnigraph.catalog.catalog",
    "TypeRules": "omnigraph.catalog.catalog",
    "Check": "omnigraph.catalog.catalog",
    "Range": "omnigraph.catalog.catalog",
    "MigrationPlan": "omnigraph.language.evolution.plan",
    "Step": "omnigraph.language.evolution.steps",
    "StepKind": "omnigraph.language.evolution.steps",
    "TableChange": "omnigraph.language.evolution.plan",
    "ColumnChange": "omnigraph.language.evolution.plan",
    "DataCheck": "omnigraph.language.evolution.steps",
    "DropMode": "omnigraph.language.evolution.steps",
    "Rewrite": "omnigraph.language.evolution.steps",
    "Json": "omnigraph.catalog.canonical",
    "Report": "omnigraph.kernels.report",
    "Applied": "omnigraph.ddl.apply",
    "Recovery": "omnigraph.transaction.recovery.audit",
    "RecoveryKind": "omnigraph.transaction.recovery.audit",
    "TableOutcome": "omnigraph.transaction.recovery.audit",
    "IndexReport": "omnigraph.maintenance.indexes",
    "PendingIndex": "omnigraph.maintenance.indexes",
    "OptimizeReport": "omnigraph.maintenance.optimize",
    "OptimizedTable": "omnigraph.maintenance.optimize",
    "CleanupReport": "omnigraph.maintenance.cleanup",
    "CleanedTable": "omnigraph.maintenance.cleanup",
    "RepairReport": "omnigraph.maintenance.repair",
    "RepairedTable": "omnigraph.maintenance.repair",
    "RepairAction": "omnigraph.maintenance.repair",
    "RepairClassification": "omnigraph.maintenance.repair",
    "StreamSink": "omnigraph.pipeline.datasource.sink",
    "Receipt": "omnigraph.transaction.write_set",
    "PipelinePlan": "omnigraph.pipeline.plan",
    "SourcePlan": "omnigraph.pipeline.plan",
    "TypePlan": "omnigraph.pipeline.plan",
    "PipelineRun": "omnigraph.pipeline.pipeline",
    "World": "omnigraph.world",
}

__all__ = sorted(MODULES)

__getattr__ = lazy_names(__name__, {name: f"{module}:{name}" for name, module in MODULES.items()})


def __dir__() -> list[str]:
    return [*__all__]
