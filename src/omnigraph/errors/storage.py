"""There is no graph here that this program may open, or make.

The disk or the object store.
"""

from __future__ import annotations

from omnigraph.errors.root import OmniGraphError


class GraphUnavailable(OmniGraphError):
    """There is no graph here that this program may open."""

    code = "graph_unavailable"

    def __init__(self, uri: str, message: str) -> None:
        super().__init__(message)
        self.uri = uri


class NotAGraph(GraphUnavailable):
    """The location holds no graph."""

    code = "not_a_graph"


class IncompleteGraph(GraphUnavailable):
    """An initialisation began here and did not finish."""

    code = "incomplete_graph"


class FormatTooNew(GraphUnavailable):
    """The graph was written by a newer release."""

    code = "format_too_new"

    def __init__(self, uri: str, *, stamp: int, supported: int) -> None:
        super().__init__(
            uri,
            f"{uri} has internal schema v{stamp}; this release reads up to v{supported}. Upgrade omnigraph first.",
        )
        self.stamp = stamp
        self.supported = supported


class FormatTooOld(GraphUnavailable):
    """The graph is older than the oldest format this release migrates."""

    code = "format_too_old"

    def __init__(self, uri: str, *, stamp: int, minimum: int) -> None:
        super().__init__(
            uri,
            f"{uri} has internal schema v{stamp}; this release migrates v{minimum} and later. "
            "Open it once with an older release, or export and load it again.",
        )
        self.stamp = stamp
        self.minimum = minimum


class CorruptStamp(GraphUnavailable):
    """The internal schema stamp is not a number."""

    code = "corrupt_stamp"

    def __init__(self, uri: str, value: str) -> None:
        super().__init__(
            uri,
            f"{uri} carries the internal schema stamp {value!r}, which is not a version number. "
            "The manifest was damaged or written by another program; restore it from a copy.",
        )
        self.value = value


class ManifestCorrupt(GraphUnavailable):
    """Rows of `__manifest` that contradict each other or the format."""

    code = "manifest_corrupt"


class SchemaContractDrift(GraphUnavailable):
    """The schema files disagree with each other."""

    code = "schema_contract_drift"


class AlreadyInitialized(OmniGraphError):
    """`init` found a graph."""

    code = "already_initialized"

    def __init__(self, uri: str) -> None:
        super().__init__(f"{uri} already holds a graph: open it, or choose another location.")
        self.uri = uri


class InitializationClaimed(OmniGraphError):
    """Another process is initialising this location."""

    code = "initialization_claimed"
    retryable = True

    def __init__(self, uri: str, *, attempt_id: str, owner: str) -> None:
        super().__init__(
            f"{uri} is being initialised by {owner} (attempt {attempt_id}). Wait for it, then open the graph."
        )
        self.uri = uri
        self.attempt_id = attempt_id
        self.owner = owner


class StoreError(OmniGraphError):
    """The disk or the object store."""

    code = "store"

    def __init__(self, message: str, *, location: str = "") -> None:
        super().__init__(message)
        self.location = location


class StorePermissionDenied(StoreError):
    """The credentials or the file mode do not allow it."""

    code = "store_permission_denied"


class StoreUnavailable(StoreError):
    """The store did not answer, or the bucket is not there."""

    code = "store_unavailable"
    retryable = True


class StoreUnsafe(StoreError):
    """The store lacks guarantees that commits rely on; writing there would lose data."""

    code = "store_unsafe"


class ObjectNotFound(StoreError):
    """No object of that name."""

    code = "object_not_found"


class ObjectExists(StoreError):
    """Create-if-absent found an object."""

    code = "object_exists"


class ObjectChanged(StoreError):
    """Replace-if-unchanged found another content."""

    code = "object_changed"
    retryable = True
