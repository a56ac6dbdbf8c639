"""Appends numbered records to a file under a lock: finds the size, writes there.

append.py FILE WRITER COUNT: what dNFSp's motivation is about; the records of all writers must be there."""

import fcntl
import os
import sys

path, writer, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.lockf(file, fcntl.LOCK_EX)
    size = os.fstat(file).st_size
    # Lengths differ, so that records do not lie on the same bounds.
    record = f"{writer} {number} {'x' * (number % 37)}\n".encode()
    if os.pwrite(file, record, size) != len(record):
        sys.exit(f"a short write at {size}")
    fcntl.lockf(file, fcntl.LOCK_UN)
    os.close(file)
