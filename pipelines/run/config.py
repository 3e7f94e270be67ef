"""``--config FILE``: the options of a run from a YAML file, or from ``run.json`` of any run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pipelines.data.user_code import is_known_class
from pipelines.data.user_files import read_user_yaml
from pipelines.errors import InputError, flag_of, nearest, opt
from pipelines.run.options import as_text, make_parser
from pipelines.run_folder.names import RECORD

# Options of a recorded run that are about its own folder or session; no other run takes them.
OF_ONE_RUN = ("results", "resume", "accept_changed", "dry_run", "pilot", "quiet", "extend")


def with_config(options_class: type[Any], command: str, argv: Sequence[str]) -> list[str]:
    """Replace ``--config FILE`` by the options in the file, as they would be typed.

    Options on the command line take precedence. ``run.json`` records the options themselves, so
    that a run is resumed without the file.

    Parameters
    ----------
    options_class : type
        The dataclass whose fields are the options of the command.
    command : str
    argv : sequence of str
        Words as they are typed.

    Returns
    -------
    list of str
        The words without ``--config``, those from the file first.

    Raises
    ------
    InputError
        The file cannot be read, is of another command, or has an unknown option or an invalid
        value; or an option in a ``run.json`` names code and was not typed as well.
    """
    if not any(word == "--config" or word.startswith("--config=") for word in argv):
        return list(argv)
    typed_options = vars(
        make_parser(options_class, command, "", ()).parse_known_intermixed_args(argv)[0]
    )
    path = Path(typed_options["config"]).expanduser()
    path = path / RECORD if path.is_dir() else path
    options = _options_of(path, options_class, command, typed_options)
    words = [
        word for name, value in options.items() for word in _words(options_class, name, value, path)
    ]
    parser = make_parser(options_class, command, "", ())
    for name, value in options.items():
        try:
            parser.parse_intermixed_args(_words(options_class, name, value, path))
        except InputError as error:
            raise InputError(f"{error.flagged()} (in {path})") from None
    return [*words, *_without_config(argv)]


def _without_config(argv: Sequence[str]) -> list[str]:
    words, is_value = list[str](), False
    for word in argv:
        if not is_value and word != "--config" and not word.startswith("--config="):
            words.append(word)
        is_value = word == "--config" and not is_value
    return words


def _options_of(
    path: Path, options_class: type[Any], command: str, typed_options: Mapping[str, Any]
) -> dict[str, Any]:
    """The options in a file by name, without those that are typed."""
    content, class_fields = _read(path), dataclasses.fields(options_class)
    is_record = isinstance(content.get("options"), dict) and "command" in content
    file_command = str(content.get("command", command)).replace("-", "_")
    if file_command != command:
        raise InputError(
            f"{opt('config')} must be of {command.replace('_', '-')}, got {path}, which is of "
            f"{file_command.replace('_', '-')}; call that command, or name another file"
        )
    if is_record:
        command_line_only = {f.name for f in class_fields if not f.metadata["python"]}
        content = {
            name: value
            for name, value in content["options"].items()
            if name not in command_line_only.union(OF_ONE_RUN)
        }
    fields = {f.name: f for f in class_fields if f.metadata["python"]}
    options = dict[str, Any]()
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name == "command" and not is_record:
            continue
        if name not in fields:
            way_out = nearest(name, fields, f"{command.replace('_', '-')} --help lists them")
            raise InputError(
                f"{opt('config')} must have options of {command.replace('_', '-')}, got {key} in "
                f"{path}; {way_out}"
            )
        if name in options:
            raise InputError(
                f"{opt('config')} must have an option once, got {key} twice in {path}; drop one"
            )
        options[name] = value
    ignored_names = {*typed_options} | ({"results"} if "resume" in typed_options else set())
    options = {name: value for name, value in options.items() if name not in ignored_names}
    if is_record:
        _refuse_code(options, fields, path)
    return options


def _read(path: Path) -> dict[str, Any]:
    must_be = f"{opt('config')} must be"
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(
                f"{must_be} a file that can be read, got {path} ({why}); check it"
            ) from None
    else:
        content = read_user_yaml(path, must_be)
    if not isinstance(content, dict):
        content_type = "nothing" if content is None else f"a {type(content).__name__}"
        raise InputError(
            f"{must_be} a file of option: value, got {path}, which holds {content_type}"
        )
    return content


def _refuse_code(options: Mapping[str, Any], fields: Mapping[str, Any], path: Path) -> None:
    """Raise InputError if an option in ``run.json`` would run code: the file may be from anyone."""
    for name, value in options.items():
        names = fields[name].metadata["code"]
        value = tuple(value) if isinstance(value, list) else value
        if names is not None and value is not None and not all(map(is_known_class, names(value))):
            raise InputError(
                f"{flag_of(name)} of {path} names code, which runs only if you name it, too: look "
                f"at it, then add {flag_of(name)} {as_text(value)}"
            )


def _words(options_class: type[Any], name: str, value: Any, path: Path) -> list[str]:
    """The words of an option as it is typed; none if it is null, or a flag that is false."""
    field = options_class.__dataclass_fields__[name]
    flag, nargs = flag_of(name), field.metadata["nargs"]

    def refuse(rule: str) -> InputError:
        return InputError(f"{flag} must be {rule}, got {value!r} (in {path})")

    if value is None:
        return []
    if field.default is False:
        if not isinstance(value, bool):
            raise refuse("true or false")
        return [flag] if value else []
    values = value if isinstance(value, list) else [value]
    allowed_types = "text or a number" if nargs is None else "text, a number, or a list of them"
    if any(
        isinstance(part, bool) or not isinstance(part, str | int | float | date) for part in values
    ):
        raise refuse(allowed_types)
    if isinstance(nargs, int) and len(values) != nargs:
        raise refuse(f"a list of {nargs}")
    if not values:
        return []
    if nargs is None:
        return [f"{flag}={','.join(map(str, values))}"]
    return [flag, *map(str, values)]
