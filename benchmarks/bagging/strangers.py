"""Pictures that are no handwritten digits, drawn by rule: what a detector of strangers is tried on.

Each function gives uint8 rows of 28 x 28 pixels, 0 to 255, bright on dark.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIDE = 28
INK_SIDE = 20  # longer side of a digit's box in MNIST
TURN = (2, 3, 4, 5, 6, 7, 9)  # digits that are none when they lie on their side
LETTERS = "AEFHKMNPRTUVWXY"  # those that look like no digit
GARMENTS = (  # outlines within the unit square: shirt, trousers, dress, shoe, boot, bag
    [(0.3, 0.1), (0.7, 0.1), (1, 0.3), (0.88, 0.45), (0.75, 0.35), (0.75, 0.95), (0.25, 0.95),
     (0.25, 0.35), (0.12, 0.45), (0, 0.3)],
    [(0.25, 0.02), (0.75, 0.02), (0.8, 0.98), (0.58, 0.98), (0.5, 0.3), (0.42, 0.98), (0.2, 0.98)],
    [(0.38, 0.02), (0.62, 0.02), (0.6, 0.4), (0.85, 0.98), (0.15, 0.98), (0.4, 0.4)],
    [(0.02, 0.45), (0.3, 0.45), (0.55, 0.65), (0.95, 0.72), (0.98, 0.85), (0.02, 0.85)],
    [(0.1, 0.05), (0.5, 0.05), (0.5, 0.6), (0.95, 0.75), (0.95, 0.95), (0.1, 0.95)],
    [(0.05, 0.4), (0.25, 0.4), (0.3, 0.15), (0.7, 0.15), (0.75, 0.4), (0.95, 0.4), (0.95, 0.9),
     (0.05, 0.9)],
)  # fmt: skip


def scrambled(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The pixels of each image in a random order of its own."""
    return rng.permuted(X, axis=1)


def on_their_side(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Digits turned by a quarter; those that may then be read as digits are left out."""
    images = X[np.isin(y, TURN)].reshape(-1, SIDE, SIDE)
    return np.rot90(images, axes=(1, 2)).reshape(len(images), -1).copy()


def letters(n: int, rng: np.random.Generator) -> np.ndarray:
    """Printed capitals in matplotlib's fonts, of the size and place of a digit, a bit turned."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    fonts = sorted(path for path in folder.glob("DejaVu*.ttf") if "Display" not in path.name)
    drawn = []
    for _ in range(n):
        page = Image.new("L", (160, 160))
        font = ImageFont.truetype(fonts[rng.integers(len(fonts))], 96)
        letter = LETTERS[rng.integers(len(LETTERS))]
        ImageDraw.Draw(page).text((80, 80), letter, fill=255, font=font, anchor="mm")
        page = page.rotate(rng.uniform(-10, 10))
        page = page.crop(page.getbbox())
        scale = INK_SIDE / max(page.size)
        width, height = (max(1, round(side * scale)) for side in page.size)
        image = Image.new("L", (SIDE, SIDE))
        small = page.resize((width, height), Image.Resampling.BOX)
        image.paste(small, ((SIDE - width) // 2, (SIDE - height) // 2))
        drawn.append(np.asarray(image).ravel())
    return np.array(drawn)


def garments(n: int, rng: np.random.Generator) -> np.ndarray:
    """Outlines of clothes, shoes and bags, a bit bent, in a grey with stripes and grain."""
    from PIL import Image, ImageDraw

    y, x = np.mgrid[:SIDE, :SIDE]
    drawn = []
    for _ in range(n):
        outline = np.array(GARMENTS[rng.integers(len(GARMENTS))])
        outline = np.clip(outline + rng.normal(0, 0.025, outline.shape), 0, 1) * (4 * SIDE - 1)
        large = Image.new("L", (4 * SIDE, 4 * SIDE))
        ImageDraw.Draw(large).polygon([tuple(point) for point in outline], fill=255)
        cover = np.asarray(large.resize((SIDE, SIDE), Image.Resampling.BOX)) / 255
        turn, rate = rng.uniform(0, np.pi), rng.uniform(0.3, 1.5)
        stripes = np.sin(rate * (np.cos(turn) * x + np.sin(turn) * y) + rng.uniform(0, 6.3))
        cloth = rng.uniform(90, 230) + rng.uniform(0, 40) * stripes
        cloth = cloth + rng.normal(0, 12, (SIDE, SIDE))
        drawn.append(np.clip(cover * cloth, 0, 255).ravel())
    return np.array(drawn).astype(np.uint8)


def patterns(n: int, rng: np.random.Generator) -> np.ndarray:
    """Stripes and chequers of any width and turn, black and white."""
    y, x = np.mgrid[:SIDE, :SIDE]
    drawn = []
    for number in range(n):
        turn, rate = rng.uniform(0, np.pi), rng.uniform(0.4, 1.6)
        waves = np.sin(rate * (np.cos(turn) * x + np.sin(turn) * y) + rng.uniform(0, 6.3))
        if number % 2:
            across = rate * (np.cos(turn) * y - np.sin(turn) * x) + rng.uniform(0, 6.3)
            waves = waves * np.sin(across)
        drawn.append(np.where(waves > 0, 255, 0).ravel())
    return np.array(drawn, dtype=np.uint8)


def photographs() -> np.ndarray:
    """The two photographs that come with scikit-learn, brought to the form of digits."""
    import sklearn.datasets

    from pipelines.bagging.pictures import PictureForm, read_picture

    form = PictureForm(SIDE, SIDE, 255.0, INK_SIDE)
    folder = Path(sklearn.datasets.__file__).parent / "images"
    rows = [read_picture(folder / name, form) for name in ("flower.jpg", "china.jpg")]
    return np.stack(rows).astype(np.uint8)
