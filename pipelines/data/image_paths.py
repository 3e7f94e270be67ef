"""Image files below a folder: each once, hidden files aside, and what else is there, by suffix."""

from __future__ import annotations

import os
import stat
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.data.tables.words import counted
from pipelines.errors import InputError, opt

# Those of torchvision, repeated here to avoid its slow import.
SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
# What operating systems put beside files, in lower case; names that begin with a dot are also
# hidden.
OF_SYSTEMS = {
    "__macosx",
    "@eadir",
    "@__thumb",
    "@recycle",
    "@recently-snapshot",
    "#recycle",
    "#snapshot",
    "$recycle.bin",
    "system volume information",
    "lost+found",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "icon\r",
}
# Files that mark a run folder, which holds figures, and a cache of decoded images.
OF_THIS_PROGRAM = ({"run.json", "journal.jsonl"}, {"about.json", "X.npy"})
KINDS_NAMED = 6  # suffixes that a note names

FileId = tuple[int, int]  # device and inode


@dataclass
class ImagePaths:
    """Image files, and what is left out beside them.

    Attributes
    ----------
    files : dict of file id to Path
        In the order of torchvision's ``ImageFolder``; the key is the file that a path leads to.
    kinds : Counter
        Number of other files, by suffix.
    n_repeated : int
        Links to files and folders that are there already.
    n_own : int
        Folders that this program wrote.
    """

    files: dict[FileId | str, Path] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    n_repeated: int = 0
    n_own: int = 0

    @property
    def notes(self) -> list[str]:
        """What is left out, in words."""
        total, common_suffixes = self.kinds.total(), self.kinds.most_common(KINDS_NAMED)
        phrases = [f"{n:,} {suffix}" for suffix, n in common_suffixes]
        if n_others := total - sum(n for _, n in common_suffixes):
            phrases.append(f"{n_others:,} of other kinds")
        notes = []
        if total:
            notes.append(
                f"{counted(total, 'file')} {'is' if total == 1 else 'are'} left out: "
                f"{', '.join(phrases)}; read are {', '.join(SUFFIXES)}"
            )
        if self.n_repeated:
            notes.append(
                f"{counted(self.n_repeated, 'link')} to what is in the same folder already "
                f"{'is' if self.n_repeated == 1 else 'are'} left out"
            )
        if self.n_own:
            notes.append(f"{counted(self.n_own, 'folder')} of this program's runs left out")
        return notes


def readable(path: str | Path) -> str:
    r"""A path as text that every file can hold: bytes that are not UTF-8 as ``\xe9``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def visible_entries(folder: str | Path, parameter: str) -> list[os.DirEntry[str]]:
    """The entries of a folder that are not hidden, by name, links last.

    Raises
    ------
    InputError
        The folder cannot be read; ``parameter`` is the option that named it.
    """
    try:
        with os.scandir(folder) as entries:
            visible = [
                entry
                for entry in entries
                if not entry.name.startswith(".") and entry.name.lower() not in OF_SYSTEMS
            ]
    except OSError as error:
        raise InputError(
            f"{opt(parameter)} must be a folder that can be read, got '{readable(folder)}': "
            f"{error.strerror}; check its permissions"
        ) from None
    return sorted(visible, key=lambda entry: (entry.is_symlink(), entry.name))


def is_image(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    return name.lower().endswith(SUFFIXES)


def file_id(path: str | Path) -> FileId:
    """Device and inode of a file or folder, the same for all links to it."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def ids_above(folder: Path) -> set[FileId]:
    """The ids of all parents of a folder, by its path and by where its links lead."""
    ids = set()
    for path in (*folder.absolute().parents, *folder.resolve().parents):
        with suppress(OSError):  # a parent may be unreadable
            ids.add(file_id(path))
    return ids


def image_paths(root: Path, parameter: str) -> ImagePaths:
    """The image files below a folder, each once, whatever links lead to it."""
    seen_ids = ids_above(root)  # a link to a parent would lead to other classes, and back here
    folders, paths = deque([(file_id(root), str(root))]), ImagePaths()
    files: dict[FileId | str, str] = {}
    while folders:
        folder_id, folder = folders.popleft()
        if folder_id in seen_ids:
            paths.n_repeated += 1
            continue
        seen_ids.add(folder_id)
        entries = visible_entries(folder, parameter)
        if any(names <= {entry.name for entry in entries} for names in OF_THIS_PROGRAM):
            paths.n_own += 1
            continue
        for entry in entries:
            key: FileId | str = entry.path
            try:
                status = entry.stat()
            except OSError:  # a dangling link; if it is an image, decoding reports it
                is_folder = False
            else:
                key = entry_id = status.st_dev, status.st_ino
                is_folder = stat.S_ISDIR(status.st_mode)
            if is_folder:  # linked folders come last, so that files count where they lie
                (folders.append if entry.is_symlink() else folders.appendleft)(
                    (entry_id, entry.path)
                )
            elif not is_image(entry.name):
                paths.kinds[_describe_entry(entry)] += 1
            elif key in files:
                paths.n_repeated += 1
            else:
                files[key] = entry.path
    sorted_files = sorted(files.items(), key=lambda pair: pair[1].rpartition(os.sep)[::2])
    paths.files = {key: Path(path) for key, path in sorted_files}
    return paths


def _describe_entry(entry: os.DirEntry[str]) -> str:
    """The suffix of a file that is not an image, or what it has in place of one."""
    if entry.is_symlink() and not os.path.exists(entry.path):
        return "behind dangling links"
    return readable(os.path.splitext(entry.name)[1].lower()) or "without suffix"


def files_beside(folder: Path) -> ImagePaths:
    """What is left out of the files that lie directly in a folder of classes."""
    beside = ImagePaths()
    for entry in visible_entries(folder, "dataset"):
        if not entry.is_dir():
            description = (
                "outside of the classes" if is_image(entry.name) else _describe_entry(entry)
            )
            beside.kinds[description] += 1
    return beside


def join_folders(parts: Iterable[ImagePaths]) -> ImagePaths:
    """The images of several folders as one."""
    whole = ImagePaths()
    for part in parts:
        whole.files |= part.files
        whole.kinds += part.kinds
        whole.n_repeated += part.n_repeated
        whole.n_own += part.n_own
    return whole
