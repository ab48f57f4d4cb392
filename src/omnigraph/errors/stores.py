"""The disk or the object store."""

from __future__ import annotations

from omnigraph.errors.root import OmniGraphError


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
    """The store breaks the rules that commits stand on; writing here would lose data."""

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
