"""What the programs share: where the gateway is, and the points, each of which prints one line."""

import json
import logging
import os
import socket
import sys
import traceback
import uuid
from datetime import datetime, timedelta, timezone

ENDPOINT = os.environ["CLIENT_ENDPOINT"]  # http://127.0.0.1:PORT/ACCOUNT
ACCOUNT = os.environ["CLIENT_ACCOUNT"]
KEY = os.environ["CLIENT_KEY"]
CONNECTION_STRING = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={ENDPOINT};"

logging.disable(logging.CRITICAL)  # the classic SDKs log every answer that is not 2xx

SOON = datetime.now(timezone.utc) + timedelta(hours=1)
LONG_AGO = datetime(2001, 1, 1, tzinfo=timezone.utc)
GUID = uuid.UUID("fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f")
TEXT = "größe 𝄞 'quoted'"


def host_style():
    """The suffix of http://ACCOUNT.table.SUFFIX, where the gateway is too. Here is no name server that says so."""
    port = ENDPOINT.split("/")[2].split(":")[1]
    system = socket.getaddrinfo
    socket.getaddrinfo = lambda host, *rest, **options: system(
        "127.0.0.1" if host == f"{ACCOUNT}.table.gateway.test" else host, *rest, **options
    )
    return f"gateway.test:{port}"


def free_name():
    return f"P{uuid.uuid4().hex}"


def point(name):
    """Runs the function at once. The point holds if it raises nothing."""

    def run(function):
        try:
            function()
            line = {"point": name, "ok": True}
        except Exception as error:
            line = {"point": name, "ok": False, "error": f"{type(error).__name__}: {error}"}
            if os.environ.get("CLIENT_VERBOSE"):
                traceback.print_exc(file=sys.stderr)
        print(json.dumps(line, ensure_ascii=False), flush=True)
        return function

    return run


def equal(got, expected):
    if got != expected:
        raise AssertionError(f"{got!r} is not {expected!r}")


class refused:
    """The block ends in an error with this status and code; `read` takes both from the client's error."""

    def __init__(self, status, code, read):
        self.expected, self.read = (status, code), read

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if error is None:
            raise AssertionError(f"not refused with {self.expected}")
        if not isinstance(error, Exception) or isinstance(error, AssertionError):
            return False
        if self.read(error) != self.expected:
            raise AssertionError(f"{self.read(error)} is not {self.expected}: {error}") from error
        return True
