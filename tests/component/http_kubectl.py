#!/usr/bin/python3 -SE
"""A stand-in for kubectl that asks a real (small) API server at $API_URL: `get --raw=PATH`, `create|replace --raw=PATH
--filename=-`, `config view`, `cordon NODE`, and `patch pod NAME --namespace NS --type=merge --patch=JSON`. `port-forward POD`: tells the
port that $FORWARD (JSON, by pod) names, and stays until it is ended, with $FORWARD_STAYS by SIGKILL; notes both in $FORWARD_LOG. Tests start it thousands
of times, and urllib would take most of its time; so it speaks HTTP/1.0 itself."""
import json
import os
import signal
import socket
import sys

HOST, PORT = os.environ["API_URL"].removeprefix("http://").rstrip("/").split(":")


def ask(method, path, body=b"", content="application/merge-patch+json"):
    with socket.create_connection((HOST, int(PORT)), timeout=20) as peer:
        peer.sendall(f"{method} {path} HTTP/1.0\r\nContent-Type: {content}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        head, _, answer = b"".join(iter(lambda: peer.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].split()
    if not length or len(answer) != int(length[0]):
        sys.exit("Unable to connect to the server: unexpected EOF")
    if head.split()[1].startswith(b"2"):
        return answer.decode()
    status = json.loads(answer)
    return sys.exit(f"Error from server ({status['reason']}): {status['message'][:200]}")


def note(word):
    with open(os.environ["FORWARD_LOG"], "a") as log:
        log.write(word + "\n")


def port_forward(pod):
    ports = json.loads(os.environ["FORWARD"])
    if pod not in ports:
        sys.exit('error: error upgrading connection: pods "x" is forbidden: User "jane" cannot create resource '
                 '"pods/portforward" in API group "" in the namespace "kube-system"')

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})    # a handler would miss one that comes just before it waits
    note("begun")
    print(f"Forwarding from 127.0.0.1:{ports[pod]} -> 39996", flush=True)
    signal.sigwait({signal.SIGUSR1 if "FORWARD_STAYS" in os.environ else signal.SIGTERM})
    note("ended")


words = [w for w in sys.argv[1:] if not w.startswith("--") or "=" in w]
words = words[1:] if words[0] == "--namespace=kube-system" else words
if words[0] == "port-forward":
    port_forward(next(w for w in words if w.startswith("pod/")).removeprefix("pod/"))
elif words[0] == "config":
    print(os.environ.get("KUBECTL_NAMESPACE", "default"), end="")
elif words[0] == "get":
    print(ask("GET", words[1].removeprefix("--raw=")), end="")
elif words[0] in ("create", "replace") and "--filename=-" in words:
    path = words[1].removeprefix("--raw=")
    print(ask("POST" if words[0] == "create" else "PUT", path, sys.stdin.buffer.read(), "application/json"), end="")
elif words[0] == "cordon":
    ask("PATCH", f"/api/v1/nodes/{words[1]}", b'{"spec": {"unschedulable": true}}')
    print(f"node/{words[1]} cordoned")
elif words[:2] == ["patch", "pod"]:
    arguments = sys.argv[1:]
    namespace = arguments[arguments.index("--namespace") + 1]
    body = next(w for w in words if w.startswith("--patch=")).removeprefix("--patch=")
    ask("PATCH", f"/api/v1/namespaces/{namespace}/pods/{words[2]}", body.encode())
    print(f"pod/{words[2]}")
else:
    sys.exit(f"error: unknown command {words[0]}")
