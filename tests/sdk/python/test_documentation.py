"""The programs for Python that README.md and docs/ show."""

import contextlib
import io
import re
import unittest
from pathlib import Path

from support import CONNECTION_STRING, SYNC

PROJECT = Path(__file__).parents[3]


def program(page):
    [only] = re.findall(r"^```python\n(.*?)^```$", (PROJECT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return only


def printed(text):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(text, {"connection": CONNECTION_STRING})  # pylint: disable=exec-used
    return output.getvalue()


class Documentation(unittest.TestCase):
    def setUp(self):
        self.service = self.enterContext(SYNC.service_class.from_connection_string(CONNECTION_STRING))
        self.addCleanup(self.service.delete_table, "Employees")

    def test_readme(self):
        shown = program("README.md")
        self.assertEqual(shown.count("UseDevelopmentStorage=true"), 1)
        self.assertEqual(printed(shown.replace("UseDevelopmentStorage=true", CONNECTION_STRING)), "['Don']\n")

    def test_with_the_sdks(self):
        self.service.create_table_if_not_exists("Employees")
        self.assertEqual(printed(program("docs/guide/gateway.md")), "['Don']\n")
