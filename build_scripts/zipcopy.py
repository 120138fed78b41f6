"""Write a zip from another one, copying the compressed bytes of members that do not change."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import IO

from build_scripts.errors import WHEEL_AGAIN, BuildError

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_UTF8_NAME = 0x800
_BLOCK = 4 << 20


class ZipCopier:
    """A new zip at `target`; members come from `source` as they are, or as new content.

    Recompressing a torch wheel takes a minute and more; copying it takes a second. zipfile has no call for that, so
    `copy` writes the member's bytes itself and enters it in zipfile's directory, which `close` then writes (with ZIP64
    where sizes need it).
    """

    def __init__(self, source: zipfile.ZipFile, source_stream: IO[bytes], target: Path) -> None:
        self._source = source
        self._stream = source_stream
        self._target = zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, allowZip64=True)

    def __enter__(self) -> ZipCopier:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.close()

    def copy(self, info: zipfile.ZipInfo, name: str) -> None:
        """Copy a member of the source under `name`."""
        self._stream.seek(info.header_offset)
        fields = _LOCAL_HEADER.unpack(self._stream.read(_LOCAL_HEADER.size))
        if fields[0] != b"PK\x03\x04":
            raise BuildError(
                f"{self._source.filename}: no local header of {info.filename}: the wheel is damaged; {WHEEL_AGAIN}"
            )
        self._stream.seek(info.header_offset + _LOCAL_HEADER.size + fields[9] + fields[10])

        entry = zipfile.ZipInfo(name, info.date_time)
        entry.compress_type = info.compress_type
        entry.external_attr = info.external_attr
        entry.create_system = info.create_system
        entry.flag_bits = info.flag_bits & _UTF8_NAME
        entry.CRC = info.CRC
        entry.file_size = info.file_size
        entry.compress_size = info.compress_size

        out = self._target.fp
        if out is None:
            raise ValueError("the target zip is closed")
        out.seek(self._target.start_dir)
        entry.header_offset = out.tell()
        out.write(entry.FileHeader())
        left = info.compress_size
        while left:
            block = self._stream.read(min(_BLOCK, left))
            if not block:
                raise BuildError(
                    f"{self._source.filename} ends inside {info.filename}: the wheel is damaged; {WHEEL_AGAIN}"
                )
            out.write(block)
            left -= len(block)
        self._target.filelist.append(entry)
        self._target.NameToInfo[name] = entry
        self._target.start_dir = out.tell()

    def write(self, name: str, content: bytes, like: zipfile.ZipInfo) -> None:
        """Write a member with new content; date and mode are those of `like`."""
        entry = zipfile.ZipInfo(name, like.date_time)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = like.create_system
        entry.external_attr = like.external_attr
        self._target.writestr(entry, content)
