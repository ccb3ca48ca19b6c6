"""Runs the tests of the SDK for Python, then sees that every public method of its clients was called."""

import logging
import sys
import unittest
from pathlib import Path

import support


class EveryMethod(unittest.TestCase):
    def test_was_called(self):
        for flavour in support.FLAVOURS:
            for cls in (flavour.service_class, flavour.table_class):
                public = {(cls.__name__, name) for name in dir(cls) if not name.startswith("_")}
                self.assertGreater(len(public), 10)
                self.assertEqual(public - flavour.calls, set(), flavour.name)


def main():
    # It tells of every call that takes long, as the tests' debug mode asks for.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    loader = unittest.defaultTestLoader
    names = sys.argv[1:]
    if names:
        suite = loader.loadTestsFromNames(names)
    else:
        suite = loader.discover(str(Path(__file__).parent))
        suite.addTests(loader.loadTestsFromTestCase(EveryMethod))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    sys.exit(not (result.wasSuccessful() and result.testsRun))


if __name__ == "__main__":
    main()
