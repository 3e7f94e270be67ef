"""The page in a real browser: on a phone and on a desk, in the dark, sorted, enlarged, on paper."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

A4 = {"width": 688, "height": 1020}  # within margins of 14 mm
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}


@pytest.fixture(params=[PHONE, DESK], ids=["phone", "desk"])
def page(request, browser, grid_page):
    page = browser.new_page(viewport=request.param)
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on(
        "request",
        lambda http_request: (
            http_request.url.startswith("http") and page.problems.append(http_request.url)
        ),
    )
    page.goto(grid_page.as_uri())
    yield page
    page.close()


@pytest.mark.slow
def test_nothing_is_wider_than_the_screen_or_missing(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('figure svg')].every(one => one.clientHeight > 100)"
    )
    assert page.locator("figure svg").count() >= 4
    assert page.problems == [], "no error, and nothing is asked of a network"


def test_the_first_screen_has_the_answer(page):
    answer = page.locator(".cards strong").first.bounding_box()
    assert answer["y"] + answer["height"] < page.viewport_size["height"]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "rows"), [(1280, [3, 3]), (390, [2, 2, 2])])
def test_the_answers_cards_fill_their_rows(browser, ensemble_page, width, rows):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(ensemble_page.as_uri())
    cards = [card.bounding_box() for card in page.locator(".cards > div").all()]
    page.close()
    tops = sorted({card["y"] for card in cards})
    assert [sum(card["y"] == top for card in cards) for top in tops] == rows
    ends = [max(card["x"] + card["width"] for card in cards if card["y"] == top) for top in tops]
    assert max(ends) - min(ends) < 1


@pytest.mark.slow
def test_a_table_is_sorted_by_a_click(page):
    cells = page.locator("#candidates tbody tr td:nth-child(4)")
    header = page.locator("#candidates th:nth-child(4) button")
    header.scroll_into_view_if_needed()
    values = "cells => cells.map(cell => cell.dataset.sort).filter(text => text !== '')"
    orders = []
    for _ in range(2):
        header.click()
        orders.append([float(cell) for cell in cells.evaluate_all(values)])
    assert orders[0] == sorted(orders[0])
    assert orders[1] == sorted(orders[0], reverse=True)
    assert len(set(orders[0])) > 3


@pytest.mark.slow
def test_a_figure_is_enlarged_by_a_click_and_closed_by_its_button(page):
    figure = page.locator("a.enlarge").first
    figure.click()
    large = page.locator("dialog[open] svg").bounding_box()
    assert large["width"] >= page.locator("a.enlarge svg").first.bounding_box()["width"]
    names = "[...document.querySelectorAll('[id]')].map(element => element.id)"
    assert len(page.evaluate(names)) == len(set(page.evaluate(names)))
    page.locator("dialog[open] button").click()
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.slow
def test_the_dark_has_light_text_on_dark_ground(page):
    def brightness(what):
        colour = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(int(part) for part in colour.strip("rgb()").split(","))

    assert brightness("color") < brightness("backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert brightness("color") > brightness("backgroundColor")


def brightness_of(figure):
    return np.asarray(Image.open(BytesIO(figure.screenshot())).convert("L")).mean()


@pytest.mark.slow
def test_figures_are_dark_in_the_dark(page):
    figure = page.locator("figure svg").first
    assert brightness_of(figure) > 200
    page.emulate_media(color_scheme="dark")
    assert brightness_of(figure) < 80


@pytest.mark.slow
def test_on_a_phone_a_wide_figure_is_scrolled_in_its_card(page):
    page.set_viewport_size({"width": 390, "height": 800})
    shares = "figures => figures.map(one => one.clientWidth / one.viewBox.baseVal.width * 3 / 4)"
    assert min(page.locator("figure svg").evaluate_all(shares)) > 0.6, "labels are no specks"
    assert page.locator(".wide .enlarge").last.evaluate("one => one.scrollWidth > one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 768])
def test_no_half_of_a_row_is_empty(browser, ensemble_page, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(ensemble_page.as_uri())
    for pair in page.locator(".columns").all():
        box = pair.bounding_box()
        cards = [card.bounding_box() for card in pair.locator("> *").all()]
        for top in {card["y"] for card in cards}:
            end = max(card["x"] + card["width"] for card in cards if card["y"] == top)
            assert end > box["x"] + 0.9 * box["width"]
    page.close()


@pytest.mark.slow
def test_an_ensembles_tables_have_room_on_a_desk(browser, ensemble_page):
    page = browser.new_page(viewport=DESK)
    page.goto(ensemble_page.as_uri())
    hidden = "[...document.querySelectorAll('.scroll')].map(o => o.scrollWidth - o.clientWidth)"
    assert max(page.evaluate(hidden)) <= 1
    page.close()


@pytest.mark.slow
def test_paper_opens_what_is_closed(page):
    option = page.locator("#reproduce details dd").last
    assert not option.is_visible()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert option.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert not option.is_visible()


def test_every_command_can_be_copied(page):
    assert page.locator("pre").count() == page.locator("pre + .copy").count()


@pytest.mark.slow
def test_paper_has_every_row_in_sight(page):
    page.emulate_media(media="print")
    hidden = "[...document.querySelectorAll('.scroll')].map(o => o.scrollHeight - o.clientHeight)"
    assert max(page.evaluate(hidden)) <= 1
    assert page.locator("nav").is_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("shown", ["grid_page", "ensemble_page"])
def test_paper_has_every_column_in_sight(browser, request, shown):
    page = browser.new_page(viewport=A4)
    page.emulate_media(media="print")
    page.goto(request.getfixturevalue(shown).as_uri())
    hidden = "[...document.querySelectorAll('.scroll')].map(o => o.scrollWidth - o.clientWidth)"
    assert max(page.evaluate(hidden)) <= 1
    page.close()


@pytest.mark.slow
def test_a_table_is_saved_as_csv_with_all_its_digits(page):
    with page.expect_download() as saved:
        page.locator("#candidates .csv").click()
    text = saved.value.path().read_text().splitlines()
    assert saved.value.suggested_filename == "candidates.csv"
    assert text[0].startswith("rank,C,gamma,cv error,")
    assert text[1].startswith("1,10,0.01,0.045,")
    assert len(text) == 1 + 20


HEAT_MAP = "[aria-label*='of every C and gamma']"


def over(page, plot, x, y):
    """The text of the tip when the mouse is there, in fractions of a figure's size."""
    box = plot.bounding_box()
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    tips = page.locator(".tip").all_text_contents()
    return tips[0] if tips else ""


def place_of(plot, text):
    """Where a figure has a value, in fractions of its size."""
    lines = plot.get_attribute("data-values").splitlines()
    (line,) = [line for line in lines if line.split(" ", 4)[4] == text]
    return [float(number) / 1000 for number in line.split(" ")[:2]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (HEAT_MAP, "C = 10, gamma = 0.01: error 4.50 %"),
        ("[aria-label*='The folds at gamma']", "C = 100: error 27.00 %"),
        ("[aria-label*='Confusion matrix']", "true one, predicted two: 1 test sample"),
    ],
)
def test_the_mouse_is_told_the_value_under_it(page, figure, text):
    plot = page.locator(f".plot{figure}")
    plot.scroll_into_view_if_needed()
    assert over(page, plot, *place_of(plot, text)) == text
    assert over(page, plot, 0.001, 0.999) == "", "nothing is there"
    assert page.problems == []


@pytest.mark.slow
def test_the_arrow_keys_go_from_value_to_value(page):
    plot = page.locator(f".plot{HEAT_MAP}")
    values = page.locator(f"figure:has({HEAT_MAP}) .walk")
    page.locator(f"a.enlarge:has({HEAT_MAP})").focus()
    page.keyboard.press("Tab")
    labels = []
    for key in ("Home", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
        labels.append(values.get_attribute("aria-valuetext").partition(":")[0])
        assert page.locator(".tip").text_content().startswith(labels[-1])
    low, right, up = "C = 0.1, gamma = 0.0001", "C = 1, gamma = 0.0001", "C = 1, gamma = 0.001"
    assert labels == [low, right, up, right, low]
    ring, box = page.locator(".ring").bounding_box(), plot.bounding_box()
    assert box["x"] < ring["x"] < box["x"] + box["width"] / 3
    page.keyboard.press("Escape")
    assert page.locator(".tip").count() == 0


@pytest.mark.slow
def test_an_enlarged_figure_tells_its_values_too(page):
    page.locator(f"a.enlarge:has({HEAT_MAP})").click()
    plot = page.locator(f"dialog .plot{HEAT_MAP}")
    text = "C = 10, gamma = 0.01: error 4.50 %"
    assert over(page, plot, *place_of(plot, text)) == text
    assert page.locator("dialog .tip").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open], .tip").count() == 0


@pytest.mark.slow
def test_a_value_stays_when_the_finger_is_lifted(browser, grid_page):
    context = browser.new_context(viewport=PHONE, has_touch=True)
    page = context.new_page()
    page.goto(grid_page.as_uri())
    page.locator(f"a.enlarge:has({HEAT_MAP})").click()
    plot = page.locator(f"dialog .plot{HEAT_MAP}")
    lines = plot.get_attribute("data-values").splitlines()
    (text,) = [line.split(" ", 4)[4] for line in lines if "C = 0.1, gamma = 0.0001:" in line]
    x, y = place_of(plot, text)
    box = plot.bounding_box()
    page.touchscreen.tap(box["x"] + x * box["width"], box["y"] + y * box["height"])
    assert page.locator("dialog .tip").text_content() == text
    context.close()
