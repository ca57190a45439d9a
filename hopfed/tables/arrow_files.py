"""Files of Arrow (.parquet, .feather, .arrow), a batch of rows at a time.

Their packed parts say how much they unpack to, and 75 kB can be GB of text, or of zeros. So a file
is read in a child process (`hopfed._lib.guarded_reading`), in memory and time that are in
proportion to its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hopfed._lib.guarded_reading import in_child_process, raise_limits
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.data.delimited import ROOM
from hopfed.data.files import UNPACKED, opened, pieces, reading, size_of

Batches = Callable[[], Iterator[Any]]


@contextmanager
def arrow_errors(name: str | Path, what: str = "cannot be read") -> Iterator[None]:
    """Turn errors of Arrow about a file into one line."""
    import pyarrow as pa

    with reading(name, what):
        try:
            yield
        except pa.ArrowException as error:
            raise ValueError(str(error)) from None


def parquet_groups(path: Path) -> tuple[int, list[int]]:
    """Columns of a .parquet file, and the rows of each of its groups."""
    with opened(path), arrow_errors(path, "cannot be read as parquet"):
        from pyarrow import parquet

        held = parquet.ParquetFile(path).metadata
        rows = [held.row_group(i).num_rows for i in range(held.num_row_groups)]
        if min(rows, default=0) < 0 or sum(rows) != held.num_rows:
            raise ValueError("its groups have other rows than it says")
        return held.num_columns, rows


def parquet_batches(
    path: Path, entries: int, groups: Sequence[int] | None = None
) -> tuple[Any, Batches]:
    """Schema of a .parquet file, and what begins to read its batches of about so many entries.

    Parameters
    ----------
    path : of the file.
    entries : of a batch.
    groups : of rows that are read; all when left out.
    """
    with opened(path) as raw:
        size = size_of(raw)
    with arrow_errors(path, "cannot be read as parquet"):
        from pyarrow import parquet

        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
        _require_room(path, file.metadata.num_rows * len(schema), size)
        texts = [field.name for field in schema if _is_text(field.type)]
    rows = max(1, entries // max(len(schema), 1))

    def batches() -> Iterator[Any]:
        file = parquet.ParquetFile(path, read_dictionary=texts)  # long words are kept once
        yield from file.iter_batches(batch_size=rows, row_groups=groups, use_threads=False)

    return schema, lambda: _bounded(path, size, batches)


def feather_batches(path: Path) -> tuple[Any, Batches]:
    """Schema of a .feather or .arrow file, and what begins to read its batches."""
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        options = pa.ipc.IpcReadOptions(use_threads=False)
        with opened(path) as raw:
            file = pa.ipc.open_file(pa.PythonFile(raw, "r"), options=options)
            for k in range(file.num_record_batches):
                yield file.get_batch(k)

    with arrow_errors(path, f"cannot be read as {path.suffix[1:]}"), opened(path) as raw:
        size = size_of(raw)
        schema = pa.ipc.open_file(pa.PythonFile(raw, "r")).schema
    return schema, lambda: _bounded(path, size, batches)


def _bounded(path: Path, size: int, batches: Batches) -> Iterator[Any]:
    """Batches that are read in another process, where they may not take more than the file may."""
    import pyarrow as pa

    def work() -> Iterator[bytes]:
        raise_limits(UNPACKED * size)
        entries = letters = 0
        try:
            for batch in batches():
                entries += batch.num_rows * batch.num_columns
                _require_room(path, entries, size)
                letters += sum(c.nbytes for c in batch.columns if _is_text(c.type))
                if letters > most:
                    raise MemoryError
                batch.validate(full=True)  # what it calls text is, and nothing leads out of it
                raise_limits(entries)
                yield _sent(batch)
        except MemoryError:
            wrong = f"it unpacks to more than {most:,} bytes: write it without packing"
            raise ValueError(wrong) from None
        except pa.ArrowException as error:
            raise ValueError(str(error)) from None

    most, what = max(UNPACKED * size, ROOM), f"cannot be read as {path.suffix[1:]}"

    def unpacked() -> Iterator[Any]:
        with closing(in_child_process(work, size)) as parts:
            for part in parts:
                yield pa.ipc.open_stream(part).read_next_batch()

    return pieces(unpacked(), lambda: arrow_errors(path, what))


def _sent(batch: Any) -> bytes:
    """A batch by itself, without the parts of its columns that it does not show."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _require_room(path: Path, entries: int, size: int) -> None:
    """Refuse, as of HDF5, more entries than can be in a file, or than fit in memory as bits."""
    if entries // 8 > max(UNPACKED * size, SMALL):
        raise ValueError(f"{entries:,} entries cannot be in a file of {size:,} bytes")
    require_memory(entries // 4, str(path))


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    tests = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    return any(test(kind) for test in tests)
