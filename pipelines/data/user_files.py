"""User files and code that an option names: loaded here, whatever they raise."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from pipelines.errors import InputError, opt

# What user code may raise: a ``sys.exit`` in it must not end a run or a worker.
USER_ERRORS = (Exception, SystemExit)


def load_object(option: str, name: str) -> Any:
    """The object that ``package.module:NAME`` or ``FILE.py:NAME`` names.

    Raises
    ------
    InputError
        It cannot be imported; ``option`` is the option that named it.
    """
    path, _, attribute = name.rpartition(":")
    try:
        if path.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(path).stem, Path(path).expanduser())
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(path)
        return getattr(module, attribute)
    except USER_ERRORS as error:
        raise InputError(
            f"{opt(option)} must be package.module:NAME or FILE.py:NAME that can be imported, got "
            f"{name!r} ({type(error).__name__}: {error})"
        ) from None


def read_user_yaml(path: str | Path, must_be: str) -> Any:
    """Read a YAML file; ``must_be`` begins the message of the InputError if that fails."""
    from cluster_setup import yaml_files

    try:
        return yaml_files.read_yaml(Path(path).expanduser())
    except (OSError, ValueError) as error:
        why = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise InputError(
            f"{must_be} a YAML file that can be read, got {path} ({why}); check it"
        ) from None
