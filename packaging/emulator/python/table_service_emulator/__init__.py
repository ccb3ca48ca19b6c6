"""Starts the emulator of the Azure Table service from Python.

    with table_service_emulator.start() as emulator:
        TableServiceClient.from_connection_string(emulator.connection_string)
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

__all__ = ["Emulator", "__version__", "start"]

# The wheel has the version of the command.
__version__ = "0.0.0"

_NAME = "table-service-emulator"
_READY = re.compile(r"on http://(\S+)\.$")
_CONNECTION_STRING = "Connection string: "


def program() -> str:
    """Returns the path of the command that was installed with this package."""
    try:
        files = importlib.metadata.files(_NAME) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _NAME and file.parent.name == "bin":
            path = file.locate().resolve()
            if path.is_file():
                return str(path)
    # pip install --target puts it there, but notes another place.
    beside = pathlib.Path(__file__).resolve().parent.parent / "bin" / _NAME
    if beside.is_file():
        return str(beside)
    found = shutil.which(_NAME)
    if found is None:
        raise FileNotFoundError(f"the command {_NAME} is not installed with this package")
    return found


class Emulator:
    """An emulator that runs. It ends with this process, however that ends."""

    def __init__(self, process: subprocess.Popen, connection_string: str, admin_url: str) -> None:
        self._process = process
        self.connection_string = connection_string
        self.admin_url = admin_url

    def __enter__(self) -> Emulator:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def reset(self) -> None:
        """Deletes all tables."""
        self._post("/reset", b"")

    def faults(self, throttle: str | None = None, inject: str | None = None, seed: int = 0) -> None:
        """Injects these faults and no others; without an argument none."""
        faults = {"throttle": throttle, "inject": inject, "seed": seed}
        self._post("/faults", json.dumps(faults).encode())

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _post(self, path: str, body: bytes) -> None:
        # There is no proxy before this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(self.admin_url + path, data=body, method="POST")):
                pass
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode(errors="replace").strip()) from None


def start(port: int = 0, **options: object) -> Emulator:
    """Starts an emulator and waits until it is ready.

    Port 0 takes a free one. Further options are those of the command, such as inject="503=1%", data="directory" or expose=True.
    """
    arguments = {"port": port, "admin_port": 0, "parent": os.getpid(), **options}
    # Its output is read here.
    arguments.pop("quiet", None)
    command = [program()]
    for name, value in arguments.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            command.append(option)
        elif value is not None and value is not False:
            command.append(f"{option}={value}")
    environment = {name: value for name, value in os.environ.items() if name != "TABLE_SERVICE_EMULATOR_QUIET"}
    with tempfile.TemporaryFile() as errors:
        # In a session of its own no Ctrl-C reaches it: the last work of this process may need it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            encoding="utf-8",
            start_new_session=True,
        )
        ready = _READY.search(process.stdout.readline())
        line = process.stdout.readline()
        if ready is None or not line.startswith(_CONNECTION_STRING):
            process.kill()
            process.wait()
            errors.seek(0)
            raise RuntimeError(f"the emulator does not start: {errors.read().decode(errors='replace').strip()}")
    return Emulator(process, line[len(_CONNECTION_STRING) :].rstrip("\n"), f"http://{ready[1]}")
