"""A service of the machine in miniature: it says over HTTP which version it is."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"


def answer(request: BaseHTTPRequestHandler, status: int, said: dict[str, Any]) -> None:
    """Answer a request with JSON."""
    body = json.dumps(said).encode()
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def serve(name: str, version: str, port: int, *, well: bool) -> None:
    """Be a service until its keeper is gone."""

    class Asked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, 200 if well else 503, {"service": name, "version": version})

        def log_message(self, *_: object) -> None:
            pass

    keeper = os.getppid()
    server = ThreadingHTTPServer((HOST, port), Asked)
    server.timeout = 0.5
    while os.getppid() == keeper:
        server.handle_request()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), well=sys.argv[4] == "well")
