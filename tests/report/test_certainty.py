import numpy as np

from pipelines.report.charts import ExplainedSample, certainty_panels
from pipelines.report.style import WARM_INK, figure_style, save


def sample(deferred=False, image=True, n_members=5):
    p = np.random.default_rng(1).dirichlet(np.ones(4), size=n_members)
    pixels = np.arange(12).reshape(4, 3) if image else None
    return ExplainedSample("test sample 3", 2, pixels, p, 1, deferred)


def test_a_panel_has_the_image_and_every_member_of_every_class():
    with figure_style():
        figure = certainty_panels([sample()], list("abcd"))
    image, certainty = figure.axes
    np.testing.assert_array_equal(image.images[0].get_array(), np.arange(12).reshape(4, 3))
    (members,) = (line for line in certainty.lines if line.get_gid() == "dots")
    dots = members.get_xydata()[::3]
    for code in range(4):
        of_class = dots[np.abs(dots[:, 0] - code) < 0.5, 1]
        np.testing.assert_allclose(of_class, sample().probabilities[:, code])


def test_a_deferred_sample_says_so_in_orange():
    figure = certainty_panels([sample(deferred=True), sample()], list("abcd"))
    first, second = figure.texts
    assert first.get_text().endswith("defer to a human")
    assert first.get_color() == WARM_INK
    assert second.get_text().startswith("test sample 3, true c: vote b,")
    assert not second.get_text().endswith("human")
    assert second.get_color() != WARM_INK


def test_one_member_many_classes_and_no_image(tmp_path):
    p = np.random.default_rng(0).dirichlet(np.ones(60), size=1)
    alone = ExplainedSample("x" * 80, None, None, p, 7, False)
    with figure_style():
        save(certainty_panels([alone], [f"class {i}" for i in range(60)]), tmp_path, "many")
        save(certainty_panels([sample(image=False)] * 3, list("abcd")), tmp_path, "three")
    assert (tmp_path / "many.svg").exists()
