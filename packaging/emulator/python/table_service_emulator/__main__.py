"""The command: python -m table_service_emulator."""

import os
import sys

from . import program

command = program()
os.execv(command, [command, *sys.argv[1:]])
