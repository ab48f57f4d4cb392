"""Bytes as numbered lines, in blocks: memory follows the block and the longest line, never the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from omnigraph.write.load.places import Place, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 1 << 20
LONGEST_LINE = 32 << 20
_BOM = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Readable(Protocol):
    """What can be read piece by piece: an open file, a socket, a buffer."""

    def read(self, size: int, /) -> bytes | str:
        """The next piece; empty at the end."""
        ...


def numbered_lines(
    stream: Readable, source: str, *, longest: int = LONGEST_LINE, first_line: int = 1
) -> Iterator[tuple[int, list[bytes]]]:
    """Blocks of lines without their ends, each with the number of its first line.

    A UTF-8 byte order mark is skipped; UTF-16 and lines longer than `longest` bytes are refused. `first_line` is the
    number of the stream's first line, when it is a part of a file.
    """
    number, rest = first_line, b""
    for chunk in _chunks(stream, source):
        lines = chunk.split(b"\n")
        lines[0] = rest + lines[0]
        rest = lines.pop()
        # Only a line that was carried over can be longer than a block.
        for candidate, at in ((lines[0] if lines else b"", number), (rest, number + len(lines))):
            if len(candidate) > longest:
                raise refuse(Place(source, "line", at), "line_length", f"the line is longer than {longest} bytes")
        yield number, lines
        number += len(lines)
    if rest:
        yield number, [rest]


def _chunks(stream: Readable, source: str) -> Iterator[bytes]:
    first = True
    while piece := stream.read(BLOCK):
        data = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else bytes(piece)
        if first:
            data = _without_mark(data, source)
            first = False
        yield data


def _without_mark(data: bytes, source: str) -> bytes:
    if data.startswith(_WIDE_MARKS) or b"\0" in data[:4]:
        message = "this is UTF-16 or UTF-32 text: save it as UTF-8"
        raise refuse(Place(source, "line", 1), "encoding", message)
    return data.removeprefix(_BOM)
