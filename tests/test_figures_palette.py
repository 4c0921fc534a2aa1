"""The palette keeps its promise of contrast, in both themes and for three kinds of colour vision."""

import pytest

from labsupport.figures.palette import PALETTE, ROLES, contrast, css_variables, luminance, simulate

THEMES = sorted(PALETTE)


def test_black_on_white_is_the_largest_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
def test_words_reach_4_5_to_1(theme):
    colours = PALETTE[theme]
    for ink in ("ink", "quiet"):
        for ground in ("ground", "raised"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("role", ROLES)
def test_text_on_a_fill_reaches_4_5_and_its_edge_3_to_1(theme, role):
    fill, edge, text = PALETTE[theme]["roles"][role]
    assert contrast(text, fill) >= 4.5
    assert contrast(edge, PALETTE[theme]["ground"]) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_lines_and_focus_ring_reach_3_to_1(theme):
    colours = PALETTE[theme]
    for name in ("line", "focus"):
        for ground in ("ground", "raised"):
            assert contrast(colours[name], colours[ground]) >= 3, (name, ground)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("deficiency", ["protan", "deutan", "tritan"])
def test_wanted_stands_out_from_touched_and_idle_without_hue(theme, deficiency):
    roles = PALETTE[theme]["roles"]
    wanted = luminance(simulate(roles["wanted"][0], deficiency))
    for other in ("touched", "idle", "waiting", "computing", "trouble"):
        low, high = sorted((wanted, luminance(simulate(roles[other][0], deficiency))))
        assert (high + 0.05) / (low + 0.05) >= 3, other


def test_every_role_is_in_the_style_sheet():
    css = css_variables()
    assert all(f"--{role}-text:" in css for role in ROLES)
