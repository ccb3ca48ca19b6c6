"""Replays exchanges in the form that SDKs send which do not run here, and compares the answers.

Each file beside this one is a conversation on a new table. Its exchanges are separated by lines that begin with `###`;
an exchange is a request as it goes over the wire, a line `<<<`, and what the answer must be: the status, headers that
it must have, an empty line, the body. `…` in a header or a body stands for any text, and bodies of JSON are compared
as JSON. Lines that begin with `#` before a request are remarks.

Written as {name}:
    base        the endpoint, such as http://127.0.0.1:10002/account
    path        its path, such as /account
    host        its host and port
    account     the account
    table       the table of this conversation
    etag        the ETag of the last answer that had one
    sas:raud    a signature for the table, as a query string, with these permissions
    account-sas a signature for the account

The Authorization header names a scheme, SharedKey or SharedKeyLite; the signature is computed as the SDK does. So is
the date: x-ms-date: {now} or Date: {now}. Content-Length is there unless the request has none of its own body.
"""

import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import sys
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import AccountSasPermissions, ResourceTypes, generate_account_sas, generate_table_sas

ENDPOINT = os.environ["SDK_ENDPOINT"]
ACCOUNT = os.environ["SDK_ACCOUNT"]
KEY = os.environ["SDK_KEY"]
URL = urlsplit(ENDPOINT)
CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)
HERE = Path(__file__).parent


def expand(text, variables):
    soon = datetime.now(timezone.utc) + timedelta(hours=1)

    def value(match):
        name = match[1]
        if name.startswith("sas:"):
            return generate_table_sas(CREDENTIAL, variables["table"], permission=name[4:], expiry=soon)
        if name == "account-sas":
            every = ResourceTypes.from_string("sco"), AccountSasPermissions.from_string("rwdlacu")
            return generate_account_sas(CREDENTIAL, *every, soon)
        return variables[name]

    return re.sub(r"\{([a-z]+(?:-sas|:[a-z]+)?)\}", value, text)


def signature(scheme, verb, target, headers):
    path, _, query = target.partition("?")
    resource = f"/{ACCOUNT}{path}"
    if "comp" in parse_qs(query):
        resource += f"?comp={parse_qs(query)['comp'][0]}"
    date = headers.get("x-ms-date") or headers["date"]
    if scheme == "SharedKeyLite":
        text = f"{date}\n{resource}"
    else:
        text = f"{verb}\n{headers.get('content-md5', '')}\n{headers.get('content-type', '')}\n{date}\n{resource}"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    return f"{scheme} {ACCOUNT}:{base64.b64encode(digest).decode()}"


def split(block):
    """First line, headers, body."""
    head, _, body = block.partition("\n\n")
    first, *lines = head.strip("\n").split("\n")
    headers = [line.split(": ", 1) for line in lines]
    return first, headers, body.rstrip("\n")


def matches(pattern, text):
    return re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), text, re.DOTALL)


def alike(expected, got):
    """Whether two JSON values are equal, where a text of the expected one may have `…`."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return list(expected) == list(got) and all(alike(expected[name], got[name]) for name in expected)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(alike, expected, got))
    if isinstance(expected, str) and isinstance(got, str):
        return matches(expected, got) is not None
    return type(expected) is type(got) and expected == got


class Conversation(unittest.TestCase):
    def __init__(self, file):
        super().__init__("replay")
        self.file = file

    def __str__(self):
        return f"{self.file.parent.name}/{self.file.stem}"

    def replay(self):
        table = f"R{uuid.uuid4().hex}"
        variables = {
            "base": ENDPOINT,
            "path": URL.path,
            "host": URL.netloc,
            "account": ACCOUNT,
            "table": table,
            "now": format_datetime(datetime.now(timezone.utc), usegmt=True),
            "etag": "",
        }
        connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=30)
        self.addCleanup(connection.close)
        exchanges = re.split(r"^###.*\n", self.file.read_text(), flags=re.MULTILINE)[1:]
        self.assertTrue(exchanges)
        for number, exchange in enumerate(exchanges, 1):
            exchange = re.sub(r"\A(#.*\n)+", "", exchange)
            with self.subTest(f"exchange {number}"):
                self.exchange(connection, exchange, variables)

    def exchange(self, connection, exchange, variables):
        request, _, answer = exchange.partition("\n<<<\n")
        first, headers, body = split(expand(request, variables))
        verb, target = first.split(" ", 1)
        lower = {name.lower(): value for name, value in headers}
        if lower.get("content-type", "").startswith("multipart/"):
            body = body.replace("\n", "\r\n") + "\r\n"
        content = body.encode()
        connection.putrequest(verb, target, skip_host="host" in lower, skip_accept_encoding=True)
        for name, value in headers:
            if name.lower() == "authorization":
                value = signature(value, verb, target, lower)
            connection.putheader(name, value)
        if content or verb in ("POST", "PUT", "MERGE", "PATCH"):
            connection.putheader("Content-Length", str(len(content)))
        connection.endheaders(content)
        response = connection.getresponse()
        got = response.read().decode()
        variables["etag"] = response.getheader("ETag") or variables["etag"]

        status, expected_headers, expected = split(expand(answer, variables))
        shown = f"{verb} {target}\n{response.status} {response.reason}\n{response.headers}\n{got}"
        self.assertEqual(str(response.status), status, shown)
        for name, value in expected_headers:
            self.assertTrue(matches(value, response.getheader(name) or ""), f"{name} is not {value}\n{shown}")
        if "json" in (response.getheader("Content-Type") or ""):
            self.assertTrue(alike(json.loads(expected), json.loads(got)), f"not {expected}\n{shown}")
        else:
            got = got.lstrip("\ufeff").replace("\r\n", "\n").rstrip("\n")
            self.assertTrue(matches(expected, got), f"not\n{expected}\n{shown}")


def main():
    files = sorted(HERE.glob("*/*.http"))
    wanted = sys.argv[1:]
    chosen = [file for file in files if not wanted or f"{file.parent.name}/{file.stem}" in wanted]
    suite = unittest.TestSuite(map(Conversation, chosen))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not (result.wasSuccessful() and result.testsRun))


if __name__ == "__main__":
    main()
