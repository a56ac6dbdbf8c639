"""holds.py FILE STOP: locks the first bytes of a file for itself alone, and writes a number there again and again, each
time to stable storage, until the file STOP is there. Prints the longest wait in milliseconds, and how many it wrote.
Whatever goes wrong ends it."""

import fcntl
import os
import struct
import sys
import time

path, stop = sys.argv[1:]
file = os.open(path, os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 8, 0)
with open(stop + ".locked", "w"):
    pass
number, longest = 0, 0
while not os.path.exists(stop):
    start = time.monotonic()
    # Nobody else has written there.
    found = os.pread(file, 8, 0)
    if found and struct.unpack(">Q", found)[0] != number:
        sys.exit(f"found {found!r} where {number} was written")
    number += 1
    os.pwrite(file, struct.pack(">Q", number), 0)
    os.fsync(file)
    longest = max(longest, time.monotonic() - start)
    time.sleep(0.05)
fcntl.lockf(file, fcntl.LOCK_UN, 8, 0)
os.close(file)
print(round(longest * 1000), number)
