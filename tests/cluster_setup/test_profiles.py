from __future__ import annotations

from pathlib import Path

import pytest

from cluster_setup import ClusterError
from cluster_setup.profiles import SHIPPED, load_profile
from cluster_setup.profiles.values import seconds_of


@pytest.fixture(autouse=True)
def user_profiles(tmp_path, monkeypatch):
    """The user's own folder of profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pleasingly").mkdir()
    return tmp_path / "pleasingly"


def write(folder, text):
    (folder / "mine.yaml").write_text(text)
    return "mine"


def refusal(name, queue=None):
    with pytest.raises(ClusterError) as caught:
        load_profile(name, queue)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [path.stem for path in SHIPPED.glob("*.yaml")])
def test_the_shipped_profiles_are_sound(name):
    profile = load_profile(name)
    assert profile.gres
    assert seconds_of(profile.walltime) >= 3600


def test_a_queue_has_a_profile_by_default():
    assert [load_profile(None, queue).queue for queue in ("slurm", "pbs", "sge")] == [
        "slurm",
        "pbs",
        "sge",
    ]


def test_ones_own_profile_says_only_what_differs(user_profiles):
    profile = load_profile(
        write(user_profiles, "base: sulis\naccount: su123\nwalltime: 12:00:00\n")
    )
    assert (profile.account, profile.partition, profile.cores) == ("su123", "gpu", 42)
    assert (profile.walltime, seconds_of(profile.walltime)) == ("12:00:00", 43200)


def test_ones_own_profile_goes_before_a_shipped_one(user_profiles):
    (user_profiles / "sulis.yaml").write_text("queue: pbs\n")
    assert load_profile("sulis").queue == "pbs"


def test_a_file_is_a_profile(tmp_path):
    (tmp_path / "site.yaml").write_text("queue: slurm\nwalltime: 2-00:00:00\n")
    profile = load_profile(str(tmp_path / "site.yaml"))
    assert seconds_of(profile.walltime) == 2 * 24 * 3600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("queue: slurm\npartitoin: gpu", "partitoin is not a key; they are base, queue, partition"),
        ("queue: slum", "queue must be 'slurm', 'pbs' or 'sge', got 'slum'"),
        ("partition: gpu", "queue is required"),
        ("queue: slurm\ncores: many", "cores must be a valid integer, got 'many'"),
        ("queue: slurm\ncores: true", "cores must be a valid integer, got True"),
        ("queue: slurm\nmemory: lots", "memory must be a size such as 16G, got 'lots'; name its"),
        ("queue: slurm\nmemory: 16000", "memory must be a size such as 16G, got 16000; name its"),
        ("queue: slurm\nmemory:", "memory must be a size such as 16G, got None"),
        ("queue: slurm\nmemory: 16Gbit", "memory must be a size such as 16G, got '16Gbit'"),
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
        (
            "queue: slurm\nwalltime: 90",
            "walltime must be HH:MM:SS or D-HH:MM:SS, got 90; a number is minutes to Slurm, for "
            "which write 01:30:00, and seconds to others, 00:01:30",
        ),
        ("queue: pbs\nwalltime: '120000'", "got '120000'; a number is minutes to Slurm, for which"),
        ("queue: pbs\nwalltime: 1:30", "got '1:30'; write 01:30:00 for an hour and a half"),
        ("queue: sge\nwalltime: 00:75:00", "walltime must be HH:MM:SS"),
        ("queue: sge\nwalltime: \u0661:00:00", "walltime must be HH:MM:SS"),
        ("queue: slurm\nwalltime: 0-00:00:20", "walltime must be 00:00:30 or more"),
        ("queue: slurm\naccount: my group", "account must be one word, without blanks, quotes"),
        ("queue: pbs\npartition: it's", "partition must be one word"),
        ("queue: sge\ncpu_partition: a#b", "cpu_partition must be one word"),
        ("queue: slurm\ngres: -x", "gres must be one word"),
        ("queue: slurm\naccount: 2026", "account must be a valid string, got 2026; write it in q"),
        ("queue: slurm\ninterface: ib0;id", "interface must match pattern"),
        ("queue: slurm\naccount: ''", "account must have at least 1 character"),
        ("queue: slurm\nskip_directives: ['']", "skip_directives must have at least 1 character"),
        (
            "queue: slurm\nshared_folder: $(pwd)/x",
            "shared_folder must hold no shell but $NAME, ${NAME}",
        ),
        ("queue: slurm\nlocal_directory: /a/`id`", "local_directory must hold no shell but $NAME"),
        ("queue: slurm\npython: $(which python)", "python must hold no shell but $NAME"),
        (
            "queue: slurm\nlocal_directory: ${A:-it's}",
            "local_directory must hold no shell but $NAME",
        ),
        ("queue: slurm\npython: srun python", "python must be a file that is here, if there is"),
        ("queue: slurm\nshared_folder: ~nobody_here/x", "must be in the home of a user who exi"),
        ("queue: slurm\nshared_folder: /a\\b", "shared_folder must hold no \\, which Slurm drops"),
        ("queue: pbs\nshared_folder: /my data", "shared_folder must hold letters, digits and /"),
        ("queue: sge\nshared_folder: /a:b", "shared_folder must hold letters, digits and /"),
        ("queue: slurm\ndirectives: [qos=x]", "directives must begin with -, got 'qos=x'; write"),
        ("queue: slurm\ndirectives: ['##SBATCH -x']", "directives must begin with -, got '##SBA"),
        ("queue: slurm\ndirectives: ['#PBS -q x']", "directives must be of slurm, got '#PBS -q"),
        ("queue: pbs\ndirectives: ['#$ -q x']", "directives must be of pbs, got '#$ -q x'"),
        ("queue: slurm\ndirectives: [--comment=a b]", "must have quotes about a value with blank"),
        ('queue: slurm\ndirectives: ["-J it\'s"]', "must have quotes about a value with blanks"),
        ("queue: slurm\nprologue: ['#SBATCH -x']", "prologue must be shell, got '#SBATCH -x'; mo"),
        ("queue: [", "is not valid YAML (line "),
        ("queue: !!python/object/apply:os.getcwd []", "is not valid YAML (line 1: "),
    ],
)
def test_a_wrong_profile_is_refused_in_one_line(user_profiles, text, words):
    assert words in refusal(write(user_profiles, text))


@pytest.mark.parametrize("key", ["shared_folder", "account", "partition", "gres"])
@pytest.mark.parametrize("text", ["$OF_NO_ONE/x", "a${OF_NO_ONE}", "$EMPTY"])
def test_a_variable_that_is_not_set(user_profiles, monkeypatch, key, text):
    monkeypatch.setenv("EMPTY", "")
    name = text.strip("${}/xa")
    assert f"{key} must name variables that are set here, {name} is not, got {text!r}; set" in (
        refusal(write(user_profiles, f"queue: slurm\n{key}: {text}"))
    )


def test_variables_are_filled_in(user_profiles, monkeypatch):
    monkeypatch.setenv("PROJECT", "p1")
    monkeypatch.setenv("HOME", "/home/a b")
    text = "queue: slurm\naccount: $PROJECT\npartition: ${OF_NO_ONE:-gpu}\n"
    profile = load_profile(write(user_profiles, text + "shared_folder: ~/$PROJECT-${PROJECT}/$"))
    assert (profile.account, profile.partition) == ("p1", "gpu")
    assert profile.shared_path == Path("/home/a b/p1-p1/$")


@pytest.mark.parametrize(("value", "key"), [("a b", "account"), ("/a\nb", "shared_folder")])
def test_what_a_variable_holds_is_checked(user_profiles, monkeypatch, value, key):
    monkeypatch.setenv("VALUE", value)
    assert f"{key} must be one " in refusal(write(user_profiles, f"queue: slurm\n{key}: $VALUE"))


def test_the_folder_of_a_home_that_pbs_cannot_take(monkeypatch):
    monkeypatch.setenv("HOME", "/home/a b")
    assert load_profile(None, "slurm").shared_path == Path("/home/a b/.cache/pleasingly")
    assert "shared_folder must hold letters" in refusal(None, "pbs")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16G", 2**34),
        ("16GB", 2**34),
        ("16 gib", 2**34),
        ("16gb", 2**34),
        ("1.5T", 3 * 2**39),
        ("900M", 900 * 2**20),
        ("17179869184", 2**34),
    ],
)
def test_memory_is_counted_as_queues_count(user_profiles, text, size):
    assert load_profile(write(user_profiles, f"queue: slurm\nmemory: {text}")).memory == size


def test_a_profile_that_is_not_there():
    assert "got 'suliss'; did you mean sulis?" in refusal("suliss")
    assert refusal("./none.yaml") == "--profile must be a file that exists, got ./none.yaml"


def test_a_profile_of_another_queue():
    assert "--profile apocrita is for --cluster sge, got --cluster slurm" in refusal(
        "apocrita", "slurm"
    )
