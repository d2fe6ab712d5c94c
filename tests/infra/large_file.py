"""Store and read a large file, and print by how many bytes that raised this process's peak of memory.

Run as a process of its own by `test_s3.py`, with the settings as JSON on standard input: a peak can't be measured in a
process that has done other things before.
"""

import asyncio
import hashlib
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

from pydantic import SecretStr

from infra.s3 import S3BlobStore

MEBIBYTE = 1024 * 1024
FILE_BYTES = 200 * MEBIBYTE


def peak_bytes() -> int:
    """Return the most memory that this process has had; Linux's own figure, since `getrusage` inherits the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def write_file(path: Path) -> str:
    """Fill `path` with `FILE_BYTES` random bytes and return their SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(FILE_BYTES // MEBIBYTE):
            block = os.urandom(MEBIBYTE)
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


async def main() -> None:
    """Round-trip the file and compare its hash."""
    arguments = json.load(sys.stdin)
    store = S3BlobStore(secret_access_key=SecretStr(arguments["secret"]), **arguments["store"])
    await store.check()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large"
        sha256 = write_file(path)
        before_bytes = peak_bytes()
        await store.put_file(arguments["key"], path, sha256=sha256)
    digest = hashlib.sha256()
    async for chunk in store.stream(arguments["key"]):
        digest.update(chunk)
    await store.close()
    assert digest.hexdigest() == sha256
    sys.stdout.write(f"{peak_bytes() - before_bytes}\n")


if __name__ == "__main__":
    asyncio.run(main())
