"""TLS: only holders of the certificate that is made for a run can reach its cluster.

Dask executes whatever a client sends: without TLS any user of the network can run code through an
open port. See docs/security.md.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cluster_setup.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Security

NO_TLS = (
    "warning    --no-tls: anybody who reaches the ports of this run can run code as you, "
    "and read what it sends"
)


@contextmanager
def private_folder(shared: Path) -> Iterator[Path]:
    """Make a folder in ``shared`` that only this user can enter; remove it at the end.

    Folders that killed runs on this machine have left there are removed, too.

    Raises
    ------
    ClusterError
        The folder cannot be made, or others could read it.
    """
    import psutil

    host = socket.gethostname()
    try:
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = shared.stat().st_mode
        # Without a sticky bit, anyone who can write to a folder can replace our folder in it.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise ClusterError(
                f"shared_folder must not be open to all who may write, {shared} has mode "
                f"{stat.S_IMODE(mode):o}; chmod o-w, or name another in the profile"
            )
        for abandoned in shared.glob("*-*-*"):
            # Split from the right: a host name may have hyphens, the parts after it have none.
            owner, pid, _ = abandoned.name.rsplit("-", 2)
            if owner == host and pid.isdigit() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(abandoned, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{host}-{os.getpid()}-", dir=shared))
    except OSError as error:
        raise ClusterError(
            f"shared_folder must be a folder of yours that all nodes see, {shared} is not "
            f"({error.strerror}); name another in the profile"
        ) from None
    try:
        if folder.stat().st_mode & 0o077:
            raise ClusterError(
                f"shared_folder must keep its files from other users, {shared} does not; "
                "name another in the profile"
            )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def named_keys(folder: Path) -> Security:
    """Dask's security settings for every role, with the certificate and the key in a folder."""
    from distributed import Security

    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    roles = ("client", "scheduler", "worker")
    return Security(
        require_encryption=True,
        tls_ca_file=certificate,
        **{f"tls_{role}_cert": certificate for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )


def write_keys(folder: Path) -> Security:
    """Make a certificate for this run in a private folder, for workers on other machines."""
    from distributed import Security

    credentials, keys = Security.temporary(), named_keys(folder)
    texts = {
        keys.tls_ca_file: credentials.tls_ca_file,
        keys.tls_worker_key: credentials.tls_scheduler_key,
    }
    for path, text in texts.items():
        Path(path).touch(mode=0o600)
        Path(path).write_text(text)
    return keys
