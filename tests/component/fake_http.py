"""What fake_apiserver.py says over HTTP: answers, watches, and misfortunes."""
import json
import re
import socket
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fake_store import KINDS, ApiError


class Request:
    def __init__(self, method, path, query, headers, raw):
        self.method, self.path, self.query, self.headers, self.raw = method, path, query, headers, raw
        self.status, self.time = None, time.monotonic()
        try:
            self.body = json.loads(raw) if raw else None
        except ValueError:
            self.body = None

    def __repr__(self):
        return f"<{self.method} {self.path} {self.query} -> {self.status}>"


class Fault:
    def __init__(self, method, path, times, watch, **what):
        self.method, self.path, self.times, self.watch = method, re.compile(path), times, watch
        self.status = what.get("status")          # answer with this status ...
        self.body = what.get("body")              # ... this body (bytes, str or JSON-able; else a Status object) ...
        self.headers = what.get("headers") or {}  # ... and these headers
        self.message = what.get("message", "injected")
        self.reason = what.get("reason", "InternalError")
        self.delay = what.get("delay", 0)         # seconds before anything is answered
        self.late = what.get("late", 0)           # seconds after it was done and before it is answered
        self.hang = what.get("hang", False)       # never answer, keep the connection open until stop()
        self.drop = what.get("drop", False)       # close the connection without an answer
        self.cut_after = what.get("cut_after")    # close the connection after this many bytes of the body
        self.stream = what.get("stream")          # a watch that says exactly these bytes and stays open

        self.body_has = what.get("body_has", "").encode()    # only requests with this text in their body

    def matches(self, method, path, watch, raw):
        return self.times and (self.method is None or self.method == method) and self.path.search(path) and \
            (self.watch is None or self.watch == watch) and self.body_has in raw


class Cut(Exception):
    """The connection is to be closed here and now."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api = None

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.api.connections.add(self.connection)

    def finish(self):
        self.api.connections.discard(self.connection)
        try:
            super().finish()
        except OSError:
            pass

    def handle(self):
        try:
            super().handle()
        except (OSError, Cut):
            self.close_connection = True

    def answer(self, status, body, headers=None, cut_after=None):
        data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else \
            json.dumps(body, separators=(",", ":")).encode()
        self.request_record.status = status
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data if cut_after is None else data[:cut_after])
        if cut_after is not None:
            raise Cut

    def run(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.request_record = request = Request(self.command, url.path, query, dict(self.headers), raw)
        self.api.requests.append(request)
        fault = self.api.take_fault(self.command, url.path, "watch" in query, raw)
        try:
            if fault and self.suffer(fault):
                return
            cut_after = fault.cut_after if fault else None
            if query.get("watch") in ("1", "true"):
                self.watch(url.path, query, cut_after)
            else:
                done = self.api.handle(request)
                time.sleep(fault.late if fault else 0)
                self.answer(*done, cut_after=cut_after)
        except ApiError as e:
            self.answer(e.code, e.status())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = run

    def suffer(self, fault):
        if fault.delay:
            time.sleep(fault.delay)
        if fault.hang:
            self.api.stopping.wait()
        if fault.hang or fault.drop:
            raise Cut
        if fault.stream is not None:
            self.start_stream()
            self.chunk(fault.stream)
            self.api.stopping.wait()
            raise Cut
        if fault.status is None:
            return False
        error = ApiError(fault.status, fault.reason, fault.message)
        self.answer(fault.status, error.status() if fault.body is None else fault.body, fault.headers,
                    fault.cut_after)
        return True

    def start_stream(self):
        self.request_record.status = 200
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.sent = 0

    def chunk(self, data, cut_after=None):
        data = data.encode() if isinstance(data, str) else data
        cut = cut_after is not None and self.sent + len(data) > cut_after
        if cut:
            data = data[:cut_after - self.sent]
        self.sent += len(data)
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if cut:
            raise Cut

    def watch(self, path, query, cut_after):
        match = self.api.match(path, self.request_record)
        store, collection = self.api.store, match["collection"]
        version = int(query.get("resourceVersion") or 0)
        with store.changed:
            if version and version < store.oldest and self.api.expire_by == "status":
                raise ApiError(410, "Expired", f"too old resource version: {version} ({store.oldest})")
        self.start_stream()
        mine = Watch(cut_after)
        mine.collection = collection
        self.api.open_watches.append(mine)
        try:
            self.follow(mine, collection, match["namespace"], query, version)
            self.wfile.write(b"0\r\n\r\n")
        finally:
            self.api.open_watches.remove(mine)

    def say(self, mine, kind, obj):
        self.chunk(json.dumps({"type": kind, "object": obj}, separators=(",", ":")) + "\n", mine.cut_after)

    def follow(self, mine, collection, namespace, query, version):
        store, api = self.api.store, self.api
        end = time.monotonic() + int(query.get("timeoutSeconds") or 3600)
        bookmark_at = time.monotonic() + api.bookmark_interval
        if version == 0:
            version = store.version
        while time.monotonic() < end and not api.stopping.is_set():
            with store.changed:
                news = [c for c in store.history if c[0] > version and c[1] == collection]
                expired, newest = version < store.oldest, store.version
                if not news or api.is_silent(collection):
                    store.changed.wait(0.05)
            if mine.cut:
                if mine.cut == "mid_object":
                    self.chunk('{"type":"MODIFIED","object":{"metadata":{"uid":"half')
                raise Cut
            if api.is_silent(collection):
                continue
            if expired:
                self.say(mine, "ERROR", ApiError(410, "Expired", f"too old resource version: {version} "
                                                 f"({store.oldest})").status())
                return
            for change in news:
                event = store.event_of(change, namespace, query)
                version = change[0]
                if event:
                    self.say(mine, *event)
            if not news:
                version = max(version, newest)
            if query.get("allowWatchBookmarks") == "true" and time.monotonic() >= bookmark_at:
                bookmark_at = time.monotonic() + api.bookmark_interval
                self.say(mine, "BOOKMARK", {"kind": KINDS.get(collection, collection), "apiVersion": "v1",
                                            "metadata": {"resourceVersion": str(version),
                                                         "creationTimestamp": None}})


class Watch:
    def __init__(self, cut_after):
        self.cut_after, self.cut = cut_after, None


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128
    tls = None

    def finish_request(self, request, client_address):
        # The handshake runs in the connection's own thread: a client that never finishes it blocks nobody.
        if self.tls:
            request = self.tls.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass  # clients that hang up, and those that refuse our certificate
