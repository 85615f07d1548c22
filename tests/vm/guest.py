"""Runs in the virtual machine as a service: mounts the second disk where its files belong, then reads a command a line
from the serial port and writes what it says, and last its exit status. Each line in either direction is JSON."""

import json
import os
import pathlib
import pwd
import signal
import subprocess
import threading

PORT = "/dev/virtio-ports/ration"
DISK, PRODUCT = "/dev/vdb", pathlib.Path("/product")


def mount_product():
    PRODUCT.mkdir(exist_ok=True)
    subprocess.run(["mount", DISK, PRODUCT], check=True)
    for place in (PRODUCT / "mounts").read_text().splitlines():
        os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "--bind", f"{PRODUCT}{place}", place], check=True)


def run(asked, say):
    """One command: {argv, user, env, timeout}. Its output is said as it comes."""
    who = pwd.getpwnam(asked["user"])
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                   "HOME": who.pw_dir, "USER": who.pw_name, **asked["env"]}
    as_whom = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if who.pw_uid else {}
    process = subprocess.Popen(asked["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=environment, cwd=who.pw_dir, start_new_session=True, **as_whom)
    limit = threading.Timer(asked["timeout"], os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    while data := process.stdout.read1(65536):
        say({"out": data.decode(errors="replace")})
    status = process.wait()
    limit.cancel()
    say({"status": status})


def main():
    with open(PORT, "r+b", buffering=0) as port:
        def say(message):
            data = json.dumps(message).encode() + b"\n"
            while data:
                data = data[port.write(data):]
        try:
            mount_product()
        except Exception as error:    # pylint: disable=broad-except
            say({"failed": str(error)})
            raise
        say({"ready": True})
        waiting = b""
        while True:
            waiting += os.read(port.fileno(), 65536)
            while b"\n" in waiting:
                line, _, waiting = waiting.partition(b"\n")
                try:
                    run(json.loads(line), say)
                except Exception as error:    # pylint: disable=broad-except
                    say({"failed": str(error)})


if __name__ == "__main__":
    main()
