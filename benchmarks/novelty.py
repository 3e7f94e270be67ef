"""Scores of novelty beside each other: ``python -m benchmarks.novelty RUN [RUN ...]``.

Each finished run of ``nn_bagging`` on digits is asked about test images, digits drawn with other
pens (scikit-learn's or MNIST's, printed ones, thick and thin strokes, lines of a mouse), and about
what is no digit: noise, letters, pieces of photographs. All but test images and plain noise come
as files of people do and are prepared by ``read_image``. A score names a sample beyond the level
that 5 % of the test images exceed; ours, of distance and certainty both, where its p is at most
0.05, which is calibrated without them.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.novelty"
BOTH, EACH, KNOWN = "both", 100, 1000
FONTS = ("DejaVuSans", "DejaVuSerif-Italic", "DejaVuSansMono-Bold", "STIXGeneral", "cmr10")
LETTERS = "ACEFHKMNRTWXaefhkmnrtwx"  # none that looks like a digit
STROKES: dict[int, list[tuple[float, float]]] = {  # of a mouse, in a unit square
    0: [(.5, 0), (.1, .2), (0, .6), (.3, 1), (.7, 1), (1, .6), (.9, .2), (.5, 0)],
    1: [(.5, 0), (.5, 1)], 2: [(0, .2), (.3, 0), (.8, .05), (.9, .3), (0, 1), (1, 1)],
    3: [(0, .1), (.5, 0), (.9, .2), (.5, .45), (.95, .75), (.5, 1), (0, .9)],
    4: [(.7, 1), (.7, 0), (0, .65), (1, .65)], 7: [(0, 0), (1, 0), (.4, 1)],
    5: [(.9, 0), (.15, 0), (.1, .45), (.6, .4), (.95, .7), (.6, 1), (0, .95)],
    6: [(.8, 0), (.3, .2), (.05, .65), (.3, 1), (.75, .95), (.8, .65), (.4, .55), (.1, .7)],
    9: [(.9, .3), (.6, .5), (.15, .45), (.1, .15), (.5, 0), (.9, .1), (.9, .4), (.7, 1)],
}  # fmt: skip
Drawn = Iterable[np.ndarray]  # gray images, dark on light


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="of nn_bagging on digits")
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="where MNIST lies")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    found = [measure(run, options.data_dir) for run in options.runs]
    command = f"python -m {COMMAND} {' '.join(map(str, options.runs))}"
    record = stamped(COMMAND, command=command, runs=found)
    text = f"# Novelty of digits drawn otherwise, and of noise, {record['date']}\n" + "".join(
        map(_table, found)
    )
    print(f"\n{text}\nkept in {keep(Path(options.results), 'novelty', record, text)}")


def _table(found: dict[str, Any]) -> str:
    names = list(found["area"])
    kinds = [
        [kind, *(f"{100 * share[name]:.0f} %" for name in names)]
        for kind, share in found["named"].items()
    ]
    title = "area under ROC, foreign digits against noise"
    area = [title, *(f"{found['area'][name]:.3f}" for name in names)]
    return (
        f"\n## {found['run']}\n\n{found['n_members']} members, {found['network']}. Share that is "
        f"named novel; right of foreign digits: {100 * found['right']:.0f} %.\n\n"
        + markdown_table(["", *names], [*kinds, area]) + "\n"
    )  # fmt: skip


def measure(run: Path, data_dir: str) -> dict[str, Any]:
    """Ask the ensemble of a run about all kinds; shares named, and the areas, by score."""
    from sklearn.metrics import roc_auc_score

    from pipelines.bagging.members import MemberFiles
    from pipelines.bagging.selective_prediction import stored_selective_prediction
    from pipelines.data import load_dataset
    from pipelines.data.image_files import ImageFormat, read_image
    from pipelines.nn.member import Ensemble
    from pipelines.run_folder.record import read_record

    _, record = read_record(run)
    name = str(record.dataset.name)
    data = load_dataset(name, data_dir=data_dir, seed=record.seed or 0)
    form = ImageFormat.of(data)
    selective = stored_selective_prediction(run)
    if form is None or selective is None:
        raise InputError(
            f"RUN must be a finished run of nn_bagging on digits, got {run}; finish it"
        )
    files = MemberFiles(run)
    members = [Ensemble.load(files.weights(one)).members[0] for one in files.numbers()]
    rng = np.random.default_rng(0)
    foreign, noise = drawn_digits(name, data_dir, rng), strange(rng)
    some = rng.permutation(len(data.X_test))[:KNOWN]
    kinds = {"test images": data.X_test[some]}
    truth = {"test images": data.y_test[some]}
    with tempfile.TemporaryDirectory() as folder:
        for kind, (images, labels) in foreign.items():
            kinds[kind], truth[kind] = _as_files(images, form, Path(folder), read_image), labels
        for kind, images in noise.items():
            kinds[kind] = _as_files(images, form, Path(folder), read_image)
    shape, white = (EACH, data.X_train.shape[1]), form.brightest
    kinds["uniform noise"] = rng.integers(0, int(white) + 1, shape)
    kinds["Gaussian noise"] = rng.normal(0, white / 3, shape).clip(0, white).round()
    kinds["scrambled digits"] = rng.permuted(data.X_test[: shape[0]], axis=1)
    reference = rng.permutation(len(data.X_train))[:KNOWN]
    scores = scores_of(members, data.X_train[reference], data.y_train[reference], kinds)
    for of_kind in scores.values():
        of_kind[BOTH] = -selective.novelty_p(-of_kind["certainty"], of_kind["distance"])
    named: dict[str, dict[str, float]] = {}
    for kind, of_kind in scores.items():
        named[kind] = {
            score: float(np.mean(values > np.quantile(scores["test images"][score], 0.95)))
            for score, values in of_kind.items() if score != "votes"
        }  # fmt: skip
        named[kind][BOTH] = float(np.mean(of_kind[BOTH] >= -0.05))
    plain = [kind for kind in kinds if "noise" in kind or "scrambled" in kind]
    digits, others = (
        {
            score: np.concatenate([scores[kind][score] for kind in some])
            for score in named["test images"]
        }
        for some in (foreign, plain)
    )
    right = np.concatenate([scores[kind]["votes"] == truth[kind] for kind in foreign])
    return {
        "run": run.name, "n_members": len(members), "network": members[0].candidate.network,
        "named": named, "right": float(right.mean()),
        "area": {
            score: float(roc_auc_score(np.r_[np.zeros(len(own)), np.ones(len(others[score]))],
                                       np.r_[own, others[score]]))
            for score, own in digits.items()
        },
    }  # fmt: skip


def scores_of(
    members: Sequence[Any], X: np.ndarray, y: np.ndarray, kinds: dict[str, np.ndarray]
) -> dict[str, dict[str, np.ndarray]]:
    """Return scores of every kind, larger for novel samples, and under "votes" the answers."""
    from sklearn.neighbors import NearestNeighbors

    pixels = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(X.astype(np.float32))
    neighbors = []
    for member in members:
        hidden = np.concatenate([one for _, one in member._blocks(X, None)])
        neighbors.append(NearestNeighbors(n_neighbors=5, algorithm="brute").fit(hidden))
    found = {}
    for kind, images in kinds.items():
        said = [member.predict(images) for member in members]
        p = np.stack([one.probabilities for one in said]).astype(np.float64)
        mean = p.mean(axis=0)
        hidden_of = [np.concatenate([one for _, one in m._blocks(images, None)]) for m in members]
        distances = [
            one.kneighbors(hidden)[0][:, -1] / np.median(one.kneighbors(one._fit_X[:200])[0][:, -1])
            for one, hidden in zip(neighbors, hidden_of, strict=True)
        ]
        found[kind] = {
            "distance": np.mean([one.distance for one in said], axis=0),
            "neighbors": np.mean(distances, axis=0),
            "pixels": pixels.kneighbors(images.astype(np.float32))[0][:, 0],
            "certainty": -mean.max(axis=1),
            "entropy": _entropy(mean),
            "disagreement": _entropy(mean) - _entropy(p).mean(axis=0),
            "votes": mean.argmax(axis=1),
        }
    return found


def _entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(p + 1e-12)).sum(axis=-1)


def _as_files(
    images: Drawn, form: Any, folder: Path, read_image: Callable[[Path, Any], np.ndarray]
) -> np.ndarray:
    from PIL import Image

    rows, path = [], folder / "image.png"
    for pixels in images:
        Image.fromarray(np.asarray(pixels).clip(0, 255).astype(np.uint8)).save(path)
        with contextlib.suppress(InputError):  # a piece of the sky is refused, as it should be
            rows.append(read_image(path, form))
    return np.stack(rows)


def drawn_digits(
    name: str, data_dir: str, rng: np.random.Generator
) -> dict[str, tuple[Drawn, np.ndarray]]:
    """Return digits that a run on ``name`` has not learned, and what they are."""
    from scipy.ndimage import grey_dilation, grey_erosion

    from pipelines.data import load_dataset

    others = {}
    for source in ("digits", "mnist"):
        data = load_dataset(source, data_dir=data_dir)
        some = rng.permutation(len(data.X_test))[:EACH]
        side = int(data.X_test.shape[1] ** 0.5)
        images = [_large(one.reshape(side, side) / data.X_test.max()) for one in data.X_test[some]]
        others[source] = images, data.y_test[some]
    ink, labels = others[name]
    thick = [grey_erosion(one, 11) for one in ink]
    thin = [grey_dilation(one, 9) for one in ink]
    printed = [(_printed(str(digit), font), digit) for font in FONTS for digit in range(10)]
    mouse = [(_by_mouse(line, rng), digit) for digit, line in STROKES.items() for _ in range(12)]
    unknown = next(source for source in others if source != name)
    return {
        f"{unknown} of another data set": others[unknown],
        "thicker strokes": (thick, labels), "thinner strokes": (thin, labels),
        "printed digits": ([one for one, _ in printed], np.array([digit for _, digit in printed])),
        "digits of a mouse": ([one for one, _ in mouse], np.array([digit for _, digit in mouse])),
    }  # fmt: skip


def strange(rng: np.random.Generator) -> dict[str, Drawn]:
    """Return images that are no digits, as files hold them."""
    from scipy.ndimage import gaussian_filter
    from sklearn.datasets import load_sample_images

    photographs = [image.mean(axis=2) for image in load_sample_images().images]
    smooth = (gaussian_filter(rng.normal(size=(64, 64)), 2 + number % 4) for number in range(EACH))
    pieces = []
    for number in range(EACH):
        side, image = int(rng.integers(40, 160)), photographs[number % len(photographs)]
        top, left = (int(rng.integers(0, length - side)) for length in image.shape)
        pieces.append(image[top : top + side, left : left + side])
    return {
        "a file of uniform noise": (rng.integers(0, 256, (64, 64)) for _ in range(EACH)),
        "a file of Gaussian noise": (rng.normal(128, 50, (64, 64)) for _ in range(EACH)),
        "a file of smooth noise": (255 * (one - one.min()) / np.ptp(one) for one in smooth),
        "pieces of photographs": pieces,
        "printed letters": (_printed(one, font) for font in FONTS for one in LETTERS),
    }


def _large(ink: np.ndarray) -> np.ndarray:
    """Return ink, from 0 to 1, as dark strokes on a large light paper."""
    from PIL import Image

    side = 168 // len(ink) * len(ink)
    large = Image.fromarray(ink.astype(np.float32)).resize((side, side), Image.Resampling.BICUBIC)
    return np.pad(255 * (1 - np.asarray(large)).clip(0, 1), 20, constant_values=255)


def _printed(text: str, font: str) -> np.ndarray:
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")
    paper = Image.new("L", (192, 192), 255)
    ImageDraw.Draw(paper).text((48, 32), text, font=ImageFont.truetype(str(path), 96), fill=0)
    return np.asarray(paper)


def _by_mouse(line: Sequence[tuple[float, float]], rng: np.random.Generator) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFilter

    paper, pen = Image.new("L", (400, 440), int(rng.integers(220, 256))), int(rng.integers(4, 36))
    width, height, slant = rng.uniform(120, 220), rng.uniform(220, 320), rng.uniform(-0.25, 0.15)
    places = [
        (100 + width * (x + rng.normal(0, 0.03) - slant * (y - 0.5)),
         60 + height * (y + rng.normal(0, 0.03)))
        for x, y in line
    ]  # fmt: skip
    draw = ImageDraw.Draw(paper)
    draw.line(places, fill=30, width=pen, joint="curve")
    for x, y in places:
        draw.ellipse([x - pen / 2, y - pen / 2, x + pen / 2, y + pen / 2], fill=30)
    return np.asarray(paper.filter(ImageFilter.GaussianBlur(1)))


if __name__ == "__main__":
    sys.exit(main())
