"""Prints the changelog of Debian's packages, from CHANGELOG.md.

usage: debian_changelog.py PROJECT MAINTAINER SECONDS

PROJECT is the directory whose history has the commits of releases; SECONDS are the time of the version that is being made.
"""

import datetime
import email.utils
import itertools
import re
import subprocess
import sys
import textwrap

project, maintainer, seconds = sys.argv[1:]


def moments():
    """Returns the time of each release, by its version."""
    with open("sql/releases/commits", encoding="utf-8") as file:
        commits = dict(line.split() for line in file if not line.startswith("#"))
    # A clone may lack old commits.
    show = ["git", "-C", project, "log", "-1", "--format=%ct"]
    said = {version: subprocess.run([*show, commit], capture_output=True, text=True).stdout for version, commit in commits.items()}
    return {version: text.strip() for version, text in said.items() if text}


def items(section):
    """Returns the items of a section, as plain text, each in one line. Paragraphs are items, too."""
    found = []
    for line in section.splitlines():
        if not line.strip():
            found.append("")
        elif line.startswith("- ") or not found or not found[-1]:
            found.append(line.removeprefix("- "))
        else:
            found[-1] += " " + line.strip()
    # A page of the guide in parentheses is nothing to click here.
    pages, links = re.compile(r" \(\[[^\]]*\]\([^)]*\)\)"), re.compile(r"\[([^\]]*)\]\([^)]*\)")
    return [links.sub(r"\1", pages.sub("", text)).replace("`", "") for text in found if text]


with open("CHANGELOG.md", encoding="utf-8") as file:
    _, *sections = re.split(r"^## ", file.read(), flags=re.MULTILINE)
known = moments()
with open("Cargo.toml", encoding="utf-8") as file:
    this = re.search(r'^version = "(.*)"$', file.read(), re.MULTILINE)[1]
# A later version may have begun. The first entry names the packages.
for section in itertools.dropwhile(lambda section: section.split()[0] != this, sections):
    heading, body = section.split("\n", 1)
    version = heading.split()[0]
    print(f"table-service ({version}) unstable; urgency=medium\n")
    for text in items(body):
        wrapped = textwrap.wrap(text, 78, initial_indent="  * ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        print("\n".join(wrapped))
    moment = datetime.datetime.fromtimestamp(int(known.get(version, seconds)), datetime.timezone.utc)
    print(f"\n -- {maintainer}  {email.utils.format_datetime(moment)}\n")
