"""Every error that a user can get: one tree, stable codes.

    OmniGraphError
    ├── InvalidInput                 an invalid argument or input; nothing was read or written
    │   ├── GraphClosed
    │   ├── InvalidUri
    │   ├── InvalidBranchName
    │   ├── ChangeCursorRejected     a cursor of the change feed that is not valid here
    │   ├── TextError                findings about a text, with positions
    │   │   ├── SchemaError          .pg
    │   │   ├── QueryError           .gq
    │   │   └── PipelineError        a pipeline file
    │   ├── SchemaChangeRefused      a migration plan that cannot be applied
    │   ├── InvalidRecord            a record or cell of an input that cannot be loaded, with its position
    │   └── ConstraintViolation      a row that violates a constraint of the schema
    │       ├── ValueViolation       required, enum, @range, @check, vector length
    │       ├── UniqueViolation      @unique, @key
    │       ├── KeyConflict          an id that must be new exists already
    │       ├── OrphanEdge           an endpoint of an edge does not exist
    │       └── CardinalityViolation @card
    ├── GraphUnavailable             no graph that this program can open
    │   ├── NotAGraph
    │   ├── IncompleteGraph
    │   ├── FormatTooNew
    │   ├── FormatTooOld
    │   ├── CorruptStamp
    │   ├── ManifestCorrupt
    │   └── SchemaContractDrift
    ├── AlreadyInitialized
    ├── InitializationClaimed
    ├── BranchError
    │   ├── BranchNotFound
    │   ├── BranchExists
    │   ├── BranchInUse
    │   └── BranchReplaced
    ├── TagExists
    ├── NotFound                     a commit, snapshot, table or object that does not exist
    │   └── VersionReclaimed         a past state whose data a cleanup has deleted
    ├── ChangeFeedGap                changes that the feed cannot return any more
    ├── CommitFailed                 nothing became visible
    │   ├── CommitConflict           another writer was first: read again and retry
    │   │   ├── ExpectedVersionMismatch
    │   │   ├── HeadMismatch
    │   │   ├── ReadSetChanged
    │   │   ├── SchemaChanged
    │   │   ├── TableAhead           versions of unfinished operations are in the table
    │   │   ├── DecidedOtherwise     another process has rolled back or completed the operation
    │   │   └── Contention
    │   ├── CommitNotDone            the store failed, and nothing was changed
    │   ├── LeaseLost                the lease expired, and another process took the operation over
    │   │   └── OperationTakenOver
    │   ├── MergeConflicts           two branches have conflicting changes
    │   ├── RevertConflicts          later changes conflict with the revert of a commit
    │   └── CommitRejected           a retry cannot succeed
    ├── CommitOutcomeUnknown         the outcome is unknown: read it before a retry
    ├── RecoveryRequired             an unfinished operation blocks this one
    ├── MigrationFailed
    ├── ResourceLimitExceeded        a limit of memory or size
    ├── QueryStopped                 a read that was stopped
    │   ├── QueryTimedOut
    │   ├── QueryCancelled
    │   ├── QueryTooLarge            the query exceeded its memory limit
    │   └── HopCapReached            an unbounded traversal that exceeded the limit of hops
    ├── EmbeddingFailed              the provider returned no vector for a text
    ├── SparkUnavailable             no Spark, or no Java that it runs on
    └── StoreError                   the disk or the object store
        ├── StorePermissionDenied
        ├── StoreUnavailable
        ├── StoreUnsafe              the store lacks guarantees that commits rely on
        ├── ObjectNotFound
        ├── ObjectExists
        └── ObjectChanged

`code` is stable and meant for programs; the message is meant for people and says what to do next. `retryable` says
whether the same call can succeed if it is repeated.
"""

from __future__ import annotations

from omnigraph.errors.commits import (
    CommitConflict,
    CommitFailed,
    CommitNotDone,
    CommitOutcomeUnknown,
    CommitRejected,
    Contention,
    DecidedOtherwise,
    ExpectedVersionMismatch,
    HeadMismatch,
    LeaseLost,
    MergeConflicts,
    MigrationFailed,
    OperationTakenOver,
    ReadSetChanged,
    RecoveryRequired,
    ResourceLimitExceeded,
    RevertConflicts,
    SchemaChanged,
    TableAhead,
)
from omnigraph.errors.inputs import (
    BranchError,
    BranchExists,
    BranchInUse,
    BranchNotFound,
    BranchReplaced,
    CardinalityViolation,
    ChangeCursorRejected,
    ChangeFeedGap,
    ConstraintViolation,
    GraphClosed,
    InvalidBranchName,
    InvalidInput,
    InvalidRecord,
    InvalidUri,
    KeyConflict,
    NotFound,
    OrphanEdge,
    PipelineError,
    QueryError,
    SchemaChangeRefused,
    SchemaError,
    TagExists,
    TextError,
    UniqueViolation,
    ValueViolation,
    VersionReclaimed,
)
from omnigraph.errors.reads import (
    EmbeddingFailed,
    HopCapReached,
    QueryCancelled,
    QueryStopped,
    QueryTimedOut,
    QueryTooLarge,
    SparkUnavailable,
)
from omnigraph.errors.root import Diagnostic, OmniGraphError
from omnigraph.errors.storage import (
    AlreadyInitialized,
    CorruptStamp,
    FormatTooNew,
    FormatTooOld,
    GraphUnavailable,
    IncompleteGraph,
    InitializationClaimed,
    ManifestCorrupt,
    NotAGraph,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    SchemaContractDrift,
    StoreError,
    StorePermissionDenied,
    StoreUnavailable,
    StoreUnsafe,
)

__all__ = [
    "AlreadyInitialized",
    "BranchError",
    "BranchExists",
    "BranchInUse",
    "BranchNotFound",
    "BranchReplaced",
    "CardinalityViolation",
    "ChangeCursorRejected",
    "ChangeFeedGap",
    "CommitConflict",
    "CommitFailed",
    "CommitNotDone",
    "CommitOutcomeUnknown",
    "CommitRejected",
    "ConstraintViolation",
    "Contention",
    "CorruptStamp",
    "DecidedOtherwise",
    "Diagnostic",
    "EmbeddingFailed",
    "ExpectedVersionMismatch",
    "FormatTooNew",
    "FormatTooOld",
    "GraphClosed",
    "GraphUnavailable",
    "HeadMismatch",
    "HopCapReached",
    "IncompleteGraph",
    "InitializationClaimed",
    "InvalidBranchName",
    "InvalidInput",
    "InvalidRecord",
    "InvalidUri",
    "KeyConflict",
    "LeaseLost",
    "ManifestCorrupt",
    "MergeConflicts",
    "MigrationFailed",
    "NotAGraph",
    "NotFound",
    "ObjectChanged",
    "ObjectExists",
    "ObjectNotFound",
    "OmniGraphError",
    "OperationTakenOver",
    "OrphanEdge",
    "PipelineError",
    "QueryCancelled",
    "QueryError",
    "QueryStopped",
    "QueryTimedOut",
    "QueryTooLarge",
    "ReadSetChanged",
    "RecoveryRequired",
    "ResourceLimitExceeded",
    "RevertConflicts",
    "SchemaChangeRefused",
    "SchemaChanged",
    "SchemaContractDrift",
    "SchemaError",
    "SparkUnavailable",
    "StoreError",
    "StorePermissionDenied",
    "StoreUnavailable",
    "StoreUnsafe",
    "TableAhead",
    "TagExists",
    "TextError",
    "UniqueViolation",
    "ValueViolation",
    "VersionReclaimed",
]
