"""A page of a run as its reader sees it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input", "source"}


class Page(HTMLParser):
    """The page's elements and visible text; fails on a tag that is not balanced."""

    def __init__(self, path):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def table(self, label):
        return self.text.split(label, 1)[1].split()


def figures_in(folder):
    svg, png = ({path.stem for path in folder.glob(f"*.{kind}")} for kind in ("svg", "png"))
    assert svg == png
    return svg
