"""Start JupyterLab on the notebooks, as ``make notebooks`` does: ``python start.py [OPTION...]``.

The Dask panel looks for a dashboard at one address. That is Dask's usual port, or where another
program has it the next free one, which the runs in this JupyterLab then take, too.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import jupyterlab.labapp

HERE = Path(__file__).resolve().parent
USUAL = 8787


def free_port() -> int:
    """The usual port of the dashboard, or the first free one after it."""
    for port in range(USUAL, USUAL + 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    return USUAL


def main() -> None:
    options = sys.argv[1:]
    if os.geteuid() == 0 and "--allow-root" not in options:
        print("You are root: JupyterLab is started with --allow-root")
        options.append("--allow-root")
    port = free_port()
    if port != USUAL:
        print(f"Port {USUAL} is taken: dashboards of the notebooks' runs are on port {port}")
    with TemporaryDirectory() as folder:
        settings = Path(folder) / "labconfig" / "default_setting_overrides.json"
        shutil.copytree(HERE / "labconfig", settings.parent)
        settings.write_text(settings.read_text().replace(str(USUAL), str(port)))
        os.environ.update(JUPYTER_CONFIG_PATH=folder, PLEASINGLY_DASHBOARD=str(port))
        sys.argv[1:] = [str(HERE.parent), *options]
        jupyterlab.labapp.main()


if __name__ == "__main__":
    main()
