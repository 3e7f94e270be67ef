"""Referral with a guarantee, on real digits and on strangers: ``python -m benchmarks.referral``.

Ensembles of MNIST, each on rows of its own. Of each: how many answers are kept and how many of
those are wrong, by the three-in-four rule and by thresholds set from left-out votes; and which
pictures that are no digits are named as strangers, or referred by the rule alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.referral"
ERRORS = (0.005, 0.01, 0.02, 0.05)
# Of fixed size, that an ensemble is trained in a minute.
SPACE = {
    "network": "conv", "n_conv_layer": 8, "kernel_size": 5, "n_hidden_layer": 64,
    "learning_rate": 0.005, "momentum": 0.8,
}  # fmt: skip
DIGITS, OF_A_KIND = 1_000, 300


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    record = measure(options.data_dir, options.limit, options.members, options.repeat)
    text = page(record)
    path = keep(Path(options.results), f"referral-mnist-{options.limit}", record, text)
    print(f"\n{text}\nkept in {path}")


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="default: data")
    add_count(parser, "--limit", 4000, "training rows of an ensemble")
    add_count(parser, "--members", 8, "of an ensemble")
    add_count(parser, "--repeat", 5, "ensembles")
    add_results(parser)
    return parser


def measure(data_dir: str, limit: int, members: int, repeat: int) -> dict[str, Any]:
    """Every figure of every ensemble."""
    return stamped(
        "referral",
        limit=limit,
        members=members,
        ensembles=[measure_one(data_dir, limit, members, seed) for seed in range(repeat)],
    )


def measure_one(data_dir: str, limit: int, members: int, seed: int) -> dict[str, Any]:
    """Train an ensemble; what it keeps, refers and names."""
    import numpy as np

    from pipelines import BaggedNets
    from pipelines.bagging.guarantee import find_threshold
    from pipelines.bagging.strangers import false_discoveries
    from pipelines.data import load_dataset

    data = load_dataset("mnist", data_dir=data_dir, limit=limit, seed=seed)
    nets = BaggedNets(
        members, 1, cv=2, max_epochs=6, image_shape=(28, 28), space=SPACE, random_state=seed,
    ).fit(data.X_train, data.y_train)  # fmt: skip
    X, truth = data.X_test, data.y_test
    answers, left_out = nets.answers(X), nets.referral_.left_out
    wrong = answers.vote != truth
    kept = {"three in four": ~answers.refer}
    for error in ERRORS:
        kept[f"{error:g}"] = find_threshold(
            left_out.certainty, left_out.is_wrong, error
        ).keeps(answers.certainty)  # fmt: skip
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(X))
    digits, others = X[some[:DIGITS]], some[DIGITS:]
    familiar = nets.referral_.familiar
    p_of_digits = familiar.p_values(digits)
    kinds = {}
    for name, pictures in kinds_of(X[others], truth[others], rng).items():
        p = familiar.p_values(pictures)
        # One batch of both, as they may come: digits first.
        named = false_discoveries(np.concatenate([p_of_digits, p]))
        there = nets.answers(pictures)
        kinds[name] = {
            "n": len(pictures),
            "p_at_most_0.05": float(np.mean(p <= 0.05)),
            "named": float(named[DIGITS:].mean()),
            "digits_named_beside": int(named[:DIGITS].sum()),
            "referred_by_rule": float(there.refer.mean()),
            "kept_and_certain": float(np.mean(~there.refer & (there.certainty > 0.9))),
        }
    judged = nets.judge(X)
    held = judged.sets[np.arange(len(truth)), truth]
    return {
        "n_test": len(truth),
        "test_error": float(wrong.mean()),
        "left_out_error": float(left_out.is_wrong.mean()),
        "kept": {
            name: {
                "share": float(one.mean()),
                "error": float(wrong[one].mean()) if one.any() else None,
                "false_referral": float(np.mean(~one[~wrong])),
                "wrong_referred": float(np.mean(~one[wrong])),
            }
            for name, one in kept.items()
        },
        "sets": {
            "mean_size": float(judged.sets.sum(axis=1).mean()),
            "coverage": float(held.mean()),
            "least_coverage": float(min(held[truth == code].mean() for code in range(10))),
        },
        "digits": {
            "p_at_most_0.05": float(np.mean(p_of_digits <= 0.05)),
            "named": float(false_discoveries(p_of_digits).mean()),
            "referred_by_rule": float(answers.refer[some[:DIGITS]].mean()),
        },
        "strangers": kinds,
    }


def kinds_of(X: Any, y: Any, rng: Any) -> dict[str, Any]:
    """Pictures that are no digits, by kind; ``X`` and ``y`` are digits to make some of."""
    from benchmarks.bagging import strangers

    n = OF_A_KIND
    return {
        "scrambled digits": strangers.scrambled(X[:n], rng),
        "digits on their side": strangers.on_their_side(X[n : 3 * n], y[n : 3 * n])[:n],
        "printed letters": strangers.letters(n, rng),
        "drawn garments": strangers.garments(n, rng),
        "stripes and chequers": strangers.patterns(n, rng),
        "photographs": strangers.photographs(),
    }


def page(record: dict[str, Any]) -> str:
    """The result as a page of Markdown; figures are means over the ensembles, worst in brackets."""
    from statistics import mean

    ensembles = record["ensembles"]

    def shown(values: list[float | None], worst: Any) -> str:
        there = [value for value in values if value is not None]
        if not there:
            return "none"
        return f"{100 * mean(there):.2f} % ({100 * worst(there):.2f})"

    kept = []
    for name in ensembles[0]["kept"]:
        of = [one["kept"][name] for one in ensembles]
        within = "" if name == "three in four" else (
            f"{sum((one['error'] or 0) <= float(name) for one in of)} of {len(of)}")  # fmt: skip
        kept.append([
            name if not within else f"at most {100 * float(name):g} % wrong, confidence 0.95",
            shown([one["share"] for one in of], min), shown([one["error"] for one in of], max),
            shown([one["false_referral"] for one in of], max),
            shown([one["wrong_referred"] for one in of], min), within,
        ])  # fmt: skip
    digits = [one["digits"] for one in ensembles]
    rows = [[
        "digits of the test set", str(DIGITS),
        shown([one["p_at_most_0.05"] for one in digits], max),
        shown([one["named"] for one in digits], max), "",
        shown([one["referred_by_rule"] for one in digits], max), "",
    ]]  # fmt: skip
    for name in ensembles[0]["strangers"]:
        of = [one["strangers"][name] for one in ensembles]
        rows.append([
            name, str(of[0]["n"]), shown([one["p_at_most_0.05"] for one in of], min),
            shown([one["named"] for one in of], min),
            f"{mean(one['digits_named_beside'] for one in of):.1f}",
            shown([one["referred_by_rule"] for one in of], min),
            shown([one["kept_and_certain"] for one in of], max),
        ])  # fmt: skip
    sets = [one["sets"] for one in ensembles]
    errors = shown([one["test_error"] for one in ensembles], max)
    return "\n".join([
        f"# Referral on MNIST, {record['limit']:,} training rows",
        "",
        f"{record['date']}, {len(ensembles)} ensembles of {record['members']} members on rows of "
        f"their own, {ensembles[0]['n_test']:,} test points; test error {errors}. Means over the "
        "ensembles, the worst in brackets.",
        "",
        markdown_table(
            ["kept", "of the answers", "wrong among them", "right answers referred",
             "wrong answers referred", "ensembles that kept the promise"], kept),
        "",
        markdown_table(
            ["pictures", "n", "p at most 0.05, one by one", "named in a batch with the digits",
             "digits named beside", "referred by three in four",
             "not referred, certainty above 0.9"], rows),
        "",
        f"Sets of classes, asked for 95 % of each class: "
        f"{mean(one['mean_size'] for one in sets):.2f} classes on average, "
        f"{shown([one['coverage'] for one in sets], min)} hold the true one, "
        f"{shown([one['least_coverage'] for one in sets], min)} in the class that fares worst.",
        "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
