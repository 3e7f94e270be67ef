from __future__ import annotations

from pathlib import Path

import pytest

from cluster_setup import ClusterError
from cluster_setup.profiles import SHIPPED, load_profile


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder of profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pleasingly").mkdir()
    return tmp_path / "pleasingly"


def write(own: Path, text: str) -> str:
    (own / "mine.yaml").write_text(text)
    return "mine"


def refusal(name: str | None, queue: str | None = None) -> str:
    with pytest.raises(ClusterError) as caught:
        load_profile(name, queue)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [path.stem for path in SHIPPED.glob("*.yaml")])
def test_the_shipped_profiles_are_sound(name: str) -> None:
    profile = load_profile(name)
    assert profile.gres
    assert profile.walltime_seconds >= 3600


def test_a_queue_has_a_profile_by_default() -> None:
    assert [load_profile(None, queue).queue for queue in ("slurm", "pbs", "sge")] == [
        "slurm",
        "pbs",
        "sge",
    ]


def test_ones_own_profile_says_only_what_differs(own: Path) -> None:
    profile = load_profile(write(own, "base: sulis\naccount: su123\nwalltime: 12:00:00\n"))
    assert (profile.account, profile.partition, profile.cores) == ("su123", "gpu", 42)
    assert (profile.walltime, profile.walltime_seconds) == ("12:00:00", 43200)


def test_ones_own_profile_goes_before_a_shipped_one(own: Path) -> None:
    (own / "sulis.yaml").write_text("queue: pbs\n")
    assert load_profile("sulis").queue == "pbs"


def test_a_file_is_a_profile(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("queue: slurm\nwalltime: 2-00:00:00\n")
    profile = load_profile(str(tmp_path / "site.yaml"))
    assert profile.walltime_seconds == 2 * 24 * 3600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("queue: slurm\npartitoin: gpu", "partitoin is not a key; they are base, queue, partition"),
        ("queue: slum", "queue must be 'slurm', 'pbs' or 'sge', got 'slum'"),
        ("partition: gpu", "queue is required"),
        ("queue: slurm\ncores: many", "cores must be a valid integer, got 'many'"),
        ("queue: slurm\ncores: true", "cores must be a valid integer, got True"),
        (
            "queue: slurm\nmemory: lots",
            "memory could not parse value and unit from byte string, got 'lots'",
        ),
        ("queue: slurm\nwalltime: 90m", "walltime must be HH:MM:SS or D-HH:MM:SS, got '90m'"),
        ("queue: slurm\nprologue: ls", "prologue must be a valid tuple, got 'ls'"),
        ("queue: slurm\nrmm_pool: 8", "rmm_pool must be a size such as 8GB, or a share of the"),
        ("base: mine", "must not be its own base"),
        ('queue: slurm\naccount: "a\\rtouch x"', "account must be one line of text, got 'a"),
        ('queue: slurm\nprologue: ["a\\rtouch x"]', "prologue must be one line of text"),
        ('queue: slurm\ndirectives: ["a\\ntouch x"]', "directives must be one line of text"),
        ('queue: slurm\naccount: "\\u2028"', "account must be one line of text"),
        ('queue: slurm\npython: "a\\0"', "python must be one line of text"),
        ("base: [sulis]", "base must be the name of a profile, got ['sulis']"),
        ("queue: slurm\ncheck_every: .inf", "must be less than or equal to 1000000, got inf"),
        ("queue: slurm\nworkers: 100000000000", "workers must be less than or equal to 10000"),
        ("queue: slurm\nmemory: 1e400", "memory "),
        ("queue: slurm\naccount: 2026-99-99", "is not valid YAML (month must be in 1..12)"),
        ("queue: slurm\ncores: " + 5000 * "1", "is not valid YAML (Exceeds the limit"),
        ("queue: " + 10**5 * "[", "is not valid YAML (its values lie too deep in one another"),
        ("queue: " + 3000 * "{a: ", "is not valid YAML"),
        ("queue: slurm\nbase: &own {A: *own}", "is not valid YAML (an alias lies within its own"),
        ("- queue", "must hold lines of 'key: value'"),
        ("queue: slurm\nqueue: pbs", 'is not valid YAML (line 2: found duplicate key "queue")'),
        ("queue: slurm\nwalltime: 90", "walltime must be HH:MM:SS or D-HH:MM:SS, got 90"),
        ("queue: [", "is not valid YAML (line "),
        ("queue: !!python/object/apply:os.getcwd []", "is not valid YAML (line 1: "),
    ],
)
def test_a_wrong_profile_is_refused_in_one_line(own: Path, text: str, words: str) -> None:
    assert words in refusal(write(own, text))


def test_a_profile_that_is_not_there() -> None:
    assert "got 'suliss'; did you mean sulis?" in refusal("suliss")
    assert refusal("./none.yaml") == "--profile must be a file that exists, got ./none.yaml"


def test_a_profile_of_another_queue() -> None:
    assert "--profile apocrita is for --cluster sge, got --cluster slurm" in refusal(
        "apocrita", "slurm"
    )
