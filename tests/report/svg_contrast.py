"""The contrast of every text of an SVG with what is painted under it, in light and in the dark.

It paints what matplotlib writes (filled and stroked paths, images, markers, texts as glyphs) and
needs no browser. Colours become dark by the rules of the style sheet, as a browser applies them.
"""

import base64
import re
from dataclasses import dataclass
from io import BytesIO
from xml.etree import ElementTree

import numpy as np
from PIL import Image, ImageColor, ImageDraw

SCALE = 4  # pixels of a point
LEAST_SHARE = 0.05  # of a text's box: what covers less is a hairline beside its letters
NAMESPACE, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
RULE = re.compile(r"\[style\*='(fill|stroke): (#\w+)'\] \{ \1: (#\w+) !important \}")
GROUND = re.compile(r"svg \{ background: (#\w+) \}")
NUMBER = re.compile(r"-?[\d.]+(?:e-?\d+)?")


@dataclass(frozen=True)
class Text:
    """A text: its name in the SVG, its size in points, its least contrast, and that it needs."""

    name: str
    size: float
    contrast: float
    colours: tuple[str, str]

    @property
    def needed(self):
        """WCAG 2.2, 1.4.3: large text is from 18 points on."""
        return 3.0 if self.size >= 18 else 4.5


def luminance(colour):
    """The relative luminance of WCAG of an RGB colour of 0 to 255."""
    channels = np.asarray(colour) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def contrast(colour, other):
    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def texts_of(svg, css, dark):
    """Every text of an SVG; ``css`` has the rules of the dark, in the SVG or in its page."""
    ground = GROUND.search(css)
    assert ground is not None, "the style sheet has no dark ground"
    root = ElementTree.fromstring(svg)
    painter = _Painter(
        root,
        {(what, light.lower()): new for what, light, new in RULE.findall(css)} if dark else {},
        ground[1] if dark else "#FFFFFF",
    )
    painter.paint(root, np.diag([SCALE, SCALE, 1.0]), {})
    return painter.texts


def _transform(words):
    matrix = np.eye(3)
    for kind, arguments in re.findall(r"(\w+)\(([^)]*)\)", words):
        numbers = [float(number) for number in NUMBER.findall(arguments)]
        step = np.eye(3)
        if kind == "translate":
            step[:2, 2] = numbers if len(numbers) > 1 else [numbers[0], 0]
        elif kind == "scale":
            step[0, 0], step[1, 1] = numbers[0], numbers[-1]
        elif kind == "rotate":
            angle = np.deg2rad(numbers[0])
            step[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        elif kind == "matrix":
            step[:2] = np.reshape(numbers, (3, 2)).T
        else:
            raise AssertionError(f"no such transform yet: {kind}")
        matrix = matrix @ step
    return matrix


def _lines(words):
    """The polygons of a path's ``d``; of a curve its ends and one place between them."""
    points = []
    for letter, arguments in re.findall(r"([MLQCzZ])([^MLQCzZ]*)", words):
        places = np.array([float(number) for number in NUMBER.findall(arguments)]).reshape(-1, 2)
        if letter == "M" and points:
            yield np.array(points)
            points = []
        if letter in "QC":
            of_curve = [points[-1], *places]
            weights = (0.25, 0.5, 0.25) if letter == "Q" else (0.125, 0.375, 0.375, 0.125)
            points.append(np.average(of_curve, axis=0, weights=weights))
            points.append(places[-1])
        elif letter in "zZ":
            points.append(points[0])
        else:
            points += list(places)
    if points:
        yield np.array(points)


def _placed(points, matrix):
    return points @ matrix[:2, :2].T + matrix[:2, 2]


class _Painter:
    def __init__(self, root, dark, ground):
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        self.dark, self.texts = dark, list[Text]()
        self.canvas = Image.new("RGB", (int(width * SCALE) + 1, int(height * SCALE) + 1), ground)
        self.by_id = {
            element.attrib["id"]: element for element in root.iter() if "id" in element.attrib
        }

    def style_of(self, element, inherited):
        pairs = re.findall(r"([\w-]+): ([^;]+)", element.get("style", ""))
        new = {k: self.dark.get((k, value.lower()), value) for k, value in pairs}
        return {**inherited, **new}

    def paint(self, element, matrix, style):
        tag = element.tag.removeprefix(NAMESPACE)
        if tag in ("defs", "style", "metadata"):
            return
        matrix, style = (
            matrix @ _transform(element.get("transform", "")),
            self.style_of(element, style),
        )
        if tag == "image":
            self.paint_image(element, matrix)
        elif tag == "path":
            self.paint_path(element, matrix, style)
        elif tag == "use":
            target = self.by_id[element.attrib[LINK][1:]]
            x, y = float(element.get("x", 0)), float(element.get("y", 0))
            matrix = matrix @ _transform(f"translate({x} {y})")
            self.paint(target, matrix, self.style_of(target, {}) | style)
        elif tag == "g" and any(glyph.get(LINK, "").startswith("#DejaVu") for glyph in element):
            self.read_text(element, matrix, style)
            return
        elif tag not in ("g", "svg"):
            raise AssertionError(f"no such element yet: {tag}")
        for child in element if tag in ("g", "svg") else ():
            if child.get("id", "").startswith("text_"):
                self.name = child.attrib["id"]
            self.paint(child, matrix, style)

    def paint_image(self, element, matrix):
        data = base64.b64decode(element.attrib[LINK].split(",", 1)[1])
        picture = Image.open(BytesIO(data)).convert("RGBA")
        x, y, width, height = (float(element.get(k, 0)) for k in ("x", "y", "width", "height"))
        corners = _placed(np.array([[x, y], [x + width, y + height]]), matrix)
        (left_edge, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
        if matrix[1, 1] < 0:
            picture = picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
        size = max(1, round(right - left_edge)), max(1, round(bottom - top))
        picture = picture.resize(size, Image.Resampling.NEAREST)
        self.canvas.paste(picture, (round(left_edge), round(top)), picture)

    def paint_path(self, element, matrix, style):
        lines = [_placed(line, matrix) for line in _lines(element.get("d", ""))]
        whole = float(style.get("opacity", 1))
        for what in ("fill", "stroke"):
            colour = style.get(what, "#000000" if what == "fill" else "none")
            if colour.startswith("url("):  # of a hatch, its ground
                pattern = self.by_id[colour[5:-1]]
                colour = next(
                    part.get("fill", "none") for part in pattern if part.tag.endswith("rect")
                )
            if colour == "none":
                continue
            mask = Image.new("L", self.canvas.size)
            draw, width = ImageDraw.Draw(mask), float(style.get("stroke-width", 1)) * SCALE
            opacity = round(255 * whole * float(style.get(f"{what}-opacity", 1)))
            for line in lines:
                ends = [tuple(point) for point in line]
                if what == "stroke":
                    draw.line(ends, fill=opacity, width=max(1, round(width)))
                elif len(ends) > 2:
                    draw.polygon(ends, fill=opacity)
            self.canvas.paste(ImageColor.getrgb(colour), (0, 0), mask)

    def read_text(self, element, matrix, style):
        points = []
        for glyph in element:
            if LINK in glyph.attrib:
                shape = self.by_id[glyph.attrib[LINK][1:]]
                here = matrix @ _transform(glyph.get("transform", ""))
                here = here @ _transform(shape.get("transform", ""))
                points += [_placed(line, here) for line in _lines(shape.get("d", ""))]
        if not points:
            return  # a space
        places = np.concatenate(points)
        left_edge, top = np.floor(places.min(axis=0)).astype(int).clip(0)
        right, bottom = np.ceil(places.max(axis=0)).astype(int)
        under = np.asarray(self.canvas.crop((left_edge, top, right, bottom))).reshape(-1, 3)
        colours, counts = np.unique(under, axis=0, return_counts=True)
        colours = colours[counts >= LEAST_SHARE * len(under)]
        ink = np.array(ImageColor.getrgb(style.get("fill", "#000000"))[:3])
        least = min(colours, key=lambda colour: contrast(ink, colour))
        size = 100 * np.sqrt(abs(np.linalg.det(matrix[:2, :2]))) / SCALE
        pair = f"#{bytes(ink.astype(np.uint8)).hex()}", f"#{bytes(least).hex()}"
        self.texts.append(Text(self.name, float(size), contrast(ink, least), pair))
