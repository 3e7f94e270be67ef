"""Are the subfolders of a folder of images its classes, or splits that each have these classes?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipelines.data.image_paths import file_id, ids_above, is_image, readable, visible_entries
from pipelines.data.tables.words import list_names
from pipelines.errors import InputError, opt

# Names of splits in lower case, without separators and without a suffix such as "set".
TRAINING = ("train", "training", "trn")
VALIDATION = ("val", "valid", "validation", "dev", "development", "eval", "evaluation")
TEST = ("test", "testing", "tst")
ROLES = {name: names[0] for names in (TRAINING, VALIDATION, TEST) for name in names}
WAY_OUT = (
    "give the folder of one split, or, where these are classes, put their images directly into "
    "their folders"
)


@dataclass(frozen=True)
class Split:
    """The folders of a training and a test set.

    Attributes
    ----------
    train : Path
        Folder of the training set's classes.
    test : Path or None
        Folder of the test set's classes; None if the test set should be drawn from the training
        set.
    notes : tuple of str
        Which folder is which split, and what is left out.
    warnings : tuple of str
        What may be wrong.
    """

    train: Path
    test: Path | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def role_of(name: str) -> str | None:
    """The split that a folder is named after, "train", "val" or "test"; None for other names."""
    words = re.sub(r"[-_ .]", "", name.lower())
    return ROLES.get(words) or ROLES.get(re.sub("(set|data|split|images)$", "", words))


def class_folders(root: Path) -> list[str]:
    """Names of the folders in a folder, without links that lead back to it or above it."""
    above = {file_id(root), *ids_above(root)}
    entries = visible_entries(root, "dataset")
    return sorted(
        entry.name for entry in entries if entry.is_dir() and file_id(entry.path) not in above
    )


def find_split(root: Path) -> Split:
    """The training and test folders, recognised by name; ``root`` alone if its folders are classes.

    A split holds folders of classes. A folder that holds images itself and fewer than two folders
    is a class, whatever its name, unless there is a split beside it.

    Raises
    ------
    InputError
        Folders are named after splits, but it cannot be told which is the training or the test set.
    """
    names, path = class_folders(root), f"'{readable(root)}'"
    roles = {name: role for name in names if (role := role_of(name))}
    with_classes = [name for name in roles if not _is_flat(root / name)]
    has_training = TRAINING[0] in roles.values()
    are_splits = len({*roles.values()}) > 1 and (has_training or len(roles) == len(names))
    if not with_classes and not are_splits:
        return Split(root, warnings=_same_subfolders(root, names))
    splits: dict[str, str] = {}
    for name in with_classes:
        if (other_name := splits.setdefault(roles[name], name)) != name:
            raise InputError(
                f"{opt('dataset')} must have one folder for each split, {path} has "
                f"{list_names(map(readable, (other_name, name)))}; rename or remove one"
            )
    train = splits.get(TRAINING[0])
    if train is None:
        raise InputError(
            f"{opt('dataset')} must have a training split with folders of classes, {path} has "
            f"splits by their names, {list_names(map(readable, roles))}, and none is one; {WAY_OUT}"
        )
    test = splits.get(TEST[0]) or splits.get(VALIDATION[0])
    other_names = [name for name in names if name not in (train, test)]
    if test is None and other_names:
        raise InputError(
            f"{opt('dataset')} must have a test or validation split with folders of classes beside "
            f"'{readable(train)}', {path} has {list_names(map(readable, other_names))}; {WAY_OUT}"
        )
    is_test = "drawn from it" if test is None else f"'{readable(test)}'"
    notes = [f"the training set is '{readable(train)}', and the test set {is_test}"]
    if other_names:
        verb = "is" if len(other_names) == 1 else "are"
        notes[0] += f"; {list_names(map(readable, other_names))} {verb} left out"
    return Split(root / train, None if test is None else root / test, tuple(notes))


def _holds_images(folder: Path) -> bool:
    """Whether there are images directly in a folder."""
    return any(
        is_image(entry.name) and not entry.is_dir() for entry in visible_entries(folder, "dataset")
    )


def _is_flat(folder: Path) -> bool:
    """Whether a folder is a class: with images directly in it, and not several folders."""
    return _holds_images(folder) and len(class_folders(folder)) < 2


def _same_subfolders(root: Path, names: list[str]) -> tuple[str, ...]:
    """A warning if all classes hold folders with the same names, which may be the real classes."""
    subfolders = {tuple(class_folders(root / name)) for name in names}
    if len(names) < 2 or len(subfolders) > 1 or any(_holds_images(root / name) for name in names):
        return ()
    (folders,) = subfolders
    if len(folders) < 2:
        return ()
    return (
        f"the classes are {list_names(map(readable, names))}, each with the folders "
        f"{list_names(map(readable, folders))}; if those are the classes, "
        "name the others train and test",
    )
