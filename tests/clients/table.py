"""Writes the table of clients between its markers in the page, from what the programs have printed.

    table.py PAGE RESULTS CLIENT ...    all clients, in the order of the table; RESULTS has a file for each that was run

A client that was not run keeps its row. If a point fails, or is missing, that the page says has passed, the page stays as it is,
unless --accept is given to `cargo xtask clients`.
"""

import json
import os
import re
import sys

BEGIN = "<!-- The table of clients: `cargo xtask clients` writes it. -->\n"
END = "<!-- The end of the table of clients. -->\n"
HEAD = "| client | version | operations | result |\n|---|---|---|---|\n"
LANGUAGES = {"python": "Python", "javascript": "JavaScript", "rust": "Rust"}
PASSED = "all passed"


def title(client):
    language, name = client.split("/")
    name = "@azure/data-tables" if client == "javascript/azure-data-tables" else name
    return f"{LANGUAGES[language]}: `{name}`"


def plain(error):
    """The error without what differs from run to run, short enough for a cell."""
    text = re.sub(r"\s+", " ", error.split("\nRequestId")[0])
    text = re.sub(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}", "(id)", text)
    text = re.sub(r"\b[JPR][0-9a-fx]{6,}\b", "(table)", text)
    text = re.sub(r"127\.0\.0\.1:\d+|localhost:\d+", "(gateway)", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:%A.]+Z", "(time)", text)
    text = text if len(text) <= 140 else text[:140].rstrip() + " …"
    return text.replace("|", "\\|").replace("<", "\\<")


def row(lines):
    head, *points = lines
    exercised = ", ".join(each["point"] for each in points)
    failed = [f"{each['point']} ({plain(each['error'])})" for each in points if not each["ok"]]
    if head["status"] or not points:
        failed.append(f"the program ended with status {head['status']}")
    result = "failed: " + "; ".join(failed) if failed else PASSED
    return f"| {title(head['client'])} | {head['version']} | {exercised} | {result} |\n"


def passed(line):
    """The points that passed, of a row of the table."""
    _, _, _, exercised, result, _ = re.split(r"(?<!\\)\|", line)
    points = {point.strip() for point in exercised.split(",")}
    result = result.strip()
    return points if result == PASSED else {point for point in points if f"{point} (" not in result}


def main(page, results, clients):
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    table, after = rest.split(END)
    old = {line.split("|")[1].strip(): line for line in table.splitlines(keepends=True)[2:]}
    rows, worse = [], []
    for client in clients:
        path = os.path.join(results, client.replace("/", "."))
        known = old.get(title(client))
        if not os.path.exists(path):
            rows += [known] if known else []
            continue
        with open(path, encoding="utf-8") as file:
            new = row([json.loads(line) for line in file])
        rows.append(new)
        lost = passed(known) - passed(new) if known else set()
        if lost or (known and PASSED in known and PASSED not in new):
            worse.append(f"{client} has passed before: {', '.join(sorted(lost)) or 'everything'}\n  {new}")
    print("".join(rows), end="")
    if worse and os.environ.get("ACCEPT") != "1":
        print("\nThese fail now, and the table stays as it is (cargo xtask clients --accept writes it):\n" + "".join(worse), end="")
        return 1
    text = before + BEGIN + HEAD + "".join(rows) + END + after
    with open(page, encoding="utf-8") as file:
        if file.read() == text:
            return 0
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
