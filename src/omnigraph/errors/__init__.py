"""Every error a user can meet: one tree, stable codes.

    OmniGraphError
    ├── InvalidInput                 what was passed in is wrong; nothing was read or written
    │   ├── GraphClosed
    │   ├── InvalidUri
    │   ├── InvalidBranchName
    │   ├── ChangeCursorRejected     a position in the change feed that means nothing here
    │   ├── TextError                findings about a text, with places
    │   │   ├── SchemaError          .pg
    │   │   ├── QueryError           .gq
    │   │   └── PipelineError        a pipeline file
    │   ├── SchemaChangeRefused      a migration plan that cannot be applied
    │   ├── InvalidRecord            a record or cell of an input that cannot be loaded, with its place
    │   └── ConstraintViolation      a row that breaks the schema's rules
    │       ├── ValueViolation       required, enum, @range, @check, vector length
    │       ├── UniqueViolation      @unique, @key
    │       ├── KeyConflict          an id that must be new is taken
    │       ├── OrphanEdge           an end of an edge is not there
    │       └── CardinalityViolation @card
    ├── GraphUnavailable             there is no graph here that this program may open
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
    ├── NotFound                     a commit, snapshot, table or object that is not there
    │   └── VersionReclaimed         a past state whose data a cleanup has taken
    ├── ChangeFeedGap                changes that can be told no more
    ├── CommitFailed                 nothing became visible
    │   ├── CommitConflict           somebody else was first: read again, try again
    │   │   ├── ExpectedVersionMismatch
    │   │   ├── HeadMismatch
    │   │   ├── ReadSetChanged
    │   │   ├── SchemaChanged
    │   │   ├── TableAhead           versions of operations that did not finish are in the way
    │   │   ├── DecidedOtherwise     another process has undone or finished the operation
    │   │   └── Contention
    │   ├── CommitNotDone            the store failed, and nothing was changed
    │   ├── LeaseLost                silent for longer than a lease: others took the work over
    │   │   └── OperationTakenOver
    │   ├── MergeConflicts           two branches disagree
    │   ├── RevertConflicts          later changes stand in the way of taking a commit back
    │   └── CommitRejected           trying again cannot help
    ├── CommitOutcomeUnknown         it may or may not have landed: look before doing anything
    ├── RecoveryRequired             an unfinished operation is in the way
    ├── MigrationFailed
    ├── ResourceLimitExceeded        more than this program agreed to hold or do
    ├── QueryStopped                 a read that did not come to its end
    │   ├── QueryTimedOut
    │   ├── QueryCancelled
    │   ├── QueryTooLarge            more memory than the query may use
    │   └── HopCapReached            an unbounded traversal that would have to go on
    ├── EmbeddingFailed              no vector for a text
    ├── SparkUnavailable             no Spark, or no Java that it runs on
    └── StoreError                   the disk or the object store
        ├── StorePermissionDenied
        ├── StoreUnavailable
        ├── StoreUnsafe              the store breaks the rules that commits stand on
        ├── ObjectNotFound
        ├── ObjectExists
        └── ObjectChanged

`code` is stable and meant for programs; the message is meant for people and says what to do next. `retryable` says
whether the same call can succeed when it is simply made again.
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
