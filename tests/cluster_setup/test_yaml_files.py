from __future__ import annotations

import re

import pytest

from cluster_setup.yaml_files import read_yaml


def written(folder, text):
    path = folder / "a.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("1e-2", 0.01),
        ("010", 10),
        ("0o10", 8),
        ("1:30", "1:30"),
        ("12:00:00", "12:00:00"),
        ("'no'", "no"),
        ("none", "none"),
        ("true", True),
        ("~", None),
        ("'1e3'", "1e3"),
        ("%YAML 1.1\n---\n1e3", 1000.0),
    ],
)
def test_values_are_those_of_yaml_1_2(tmp_path, text, value):
    read = read_yaml(written(tmp_path, text))
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", 'line 2: found duplicate key "a"'),
        ("a: 1\nb: {c: [1], c: [2]}", 'line 2: found duplicate key "c"'),
        ("a: [1,\n  no]", "line 2: no is text in YAML 1.2: write true or false, or 'no'"),
        ("fit: Yes", "line 1: Yes is text in YAML 1.2"),
        ("&a [*a]", "an alias lies within its own anchor"),
        ("a: &a {b: [1, {c: *a}]}", "an alias lies within its own anchor"),
        ("[" * 10**4, "its values lie too deep in one another"),
        ("a: 1\n---\nb: 2", "line 2: but found another document"),
        ("!!python/object/apply:os.getcwd []", "line 1: "),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}") as caught:
        read_yaml(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_an_alias_of_aliases_is_not_written_out(tmp_path):
    """There is no time for 2 to the power of 60 values."""
    lines = ["a0: &a0 [1, 1]"]
    lines += [f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}]" for i in range(60)]
    content = read_yaml(written(tmp_path, "\n".join(lines)))
    assert content["a60"][0] is content["a60"][1]
