#!/usr/bin/env python3
"""Runs shell scripts in a virtual machine for `cargo xtask guests`, which listens at HOST PORT.

Each of COUNT connections carries one order after the other, one JSON object a line: the script and the
seconds that it may take. The answer has its exit status (124: it took longer) and what it printed."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

DOES_NOT_END = 124


def run(script, seconds):
    # Into a file: a pipe would be held open by whatever the script leaves running.
    with tempfile.TemporaryFile() as output:
        shell = subprocess.Popen(
            ["sh", "-eu", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = shell.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            status = DOES_NOT_END
        output.seek(0)
        return {"status": status, "output": output.read().decode(errors="replace")}


def serve(address):
    with socket.create_connection(address) as connection:
        orders = connection.makefile("r")
        for line in orders:
            order = json.loads(line)
            reply = run(order["script"], order["seconds"])
            connection.sendall(json.dumps(reply).encode() + b"\n")


def main():
    host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    servers = [threading.Thread(target=serve, args=((host, port),)) for _ in range(count)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()


main()
