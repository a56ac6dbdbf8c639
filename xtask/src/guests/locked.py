"""locked.py FILE alone|read START LENGTH [STOP]: locks these bytes for itself alone, or to read beside others (status 11 if
somebody is in the way of that). With STOP it makes the file STOP.locked then, and keeps them until STOP is there."""

import fcntl
import os
import sys
import time

path, kind, start, length = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
stop = sys.argv[5] if len(sys.argv) > 5 else None
mode, lock = {"alone": ("r+b", fcntl.LOCK_EX), "read": ("rb", fcntl.LOCK_SH)}[kind]
# Who opens a file for the second time may be given it, and locks it by himself then.
for _ in range(2):
    with open(path, mode) as file:
        file.read(1)
with open(path, mode) as file:
    try:
        fcntl.lockf(file, lock | fcntl.LOCK_NB, length, start)
    except BlockingIOError:
        sys.exit(11)
    if stop:
        with open(stop + ".locked", "w"):
            pass
        while not os.path.exists(stop):
            time.sleep(0.1)
