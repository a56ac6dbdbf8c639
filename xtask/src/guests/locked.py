"""locked.py FILE START LENGTH SECONDS: locks these bytes (status 11 if somebody else has them), says so, and keeps
them for that long."""

import fcntl
import sys
import time

path, start, length, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
with open(path, "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except BlockingIOError:
        sys.exit(11)
    print("locked", flush=True)
    time.sleep(seconds)
