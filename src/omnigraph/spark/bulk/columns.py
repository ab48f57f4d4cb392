"""The Arrow types of what tasks and driver exchange. Named here with their common type, as a schema wants them."""

from __future__ import annotations

import pyarrow as pa

INT: pa.DataType = pa.int32()
LONG: pa.DataType = pa.int64()
TEXT: pa.DataType = pa.string()
BYTES: pa.DataType = pa.binary()
