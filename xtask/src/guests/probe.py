"""probe.py DIRECTORY STOP: makes, reads and removes a file, until the file STOP is there; prints how long the longest
time took, in milliseconds, and how many there were."""

import os
import sys
import time

directory, stop = sys.argv[1], sys.argv[2]
longest, count = 0.0, 0
while not os.path.exists(stop):
    begin = time.monotonic()
    path = os.path.join(directory, f"probe-{count}")
    with open(path, "wb") as file:
        file.write(str(count).encode())
        file.flush()
        os.fsync(file.fileno())
    with open(path, "rb") as file:
        if file.read() != str(count).encode():
            sys.exit(f"{path} holds something else")
    try:
        os.unlink(path)
    except FileNotFoundError:
        # Done by a gateway that died before it had answered, and asked of the next one once more.
        pass
    longest = max(longest, time.monotonic() - begin)
    count += 1
print(f"{longest * 1000:.0f} {count}")
