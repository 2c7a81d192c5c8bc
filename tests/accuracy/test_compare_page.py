"""The page of msaccucmp compare: the tree of modules, and the whole page in a browser."""

from __future__ import annotations

import re

import pytest
from torch_npu.tools.accuracy import cli
from torch_npu.tools.report import read_data

from tests.accuracy.dumps import network, write_h5
from tests.browser import filter_rows, open_page, sort_rows, texts

# 24 operators: four for each of layer.0 to layer.5. The operators mm belong to the module .linear of a layer.
MODULES = {number + 1: f"layer.{number // 4}" + (".linear" if number % 4 < 2 else "") for number in range(24)}
WRONG = 14  # in layer.3.linear


def made_page(folder, wrong=None):
    mine = write_h5(folder / "mine.h5", network(wrong=wrong), MODULES)
    golden = write_h5(folder / "golden.h5", network(), MODULES)
    status = cli.main(["compare", "-m", str(mine), "-g", str(golden), "-out", str(folder / "out")])
    assert status == (1 if wrong else 0)
    (page,) = (folder / "out").glob("result_*.html")
    return page


def summaries(text):
    """(is open, module, counts) for each node of the tree with children."""
    return re.findall(r"<details( open)?><summary><span class=\"\w+\">([^<]*)</span> ([^<]*)</summary>", text)


def test_the_tree_is_open_down_to_the_wrong_operator(tmp_path):
    text = made_page(tmp_path, WRONG).read_text()
    assert [name for is_open, name, _ in summaries(text) if is_open] == ["(all)", "layer", "3", "linear"]
    assert f'<div class="leaf"><span class="bad">operator {WRONG}: mm</span> error</div>' in text
    assert list(read_data(text)["modules"])[:4] == ["", "layer", "layer.0", "layer.0.linear"]


def test_the_tree_is_closed_if_the_runs_agree(tmp_path):
    found = summaries(made_page(tmp_path).read_text())
    assert [(name, counts) for _, name, counts in found[:3]] == [("(all)", "24 pass"), ("layer", "24 pass"), ("0", "4 pass")]
    assert not any(is_open for is_open, _, _ in found)


@pytest.mark.full
def test_a_browser_shows_the_comparison(browser, tmp_path):
    page = made_page(tmp_path, WRONG)
    assert open_page(browser, page) == read_data(page.read_text())
    assert browser.title == "mine.h5 against golden.h5"
    sections = ["Result", "Modules", "Worst operators", "Errors of the worst operators", "All operators, in the order of the run"]
    assert texts(browser, "h2") == sections
    assert texts(browser, "p")[0].startswith("the first wrong operator is mm")

    visible = """
        return [...document.querySelectorAll('.tree summary, .tree .leaf')].filter(e => e.checkVisibility()).map(e => e.innerText)
    """
    shown = browser.execute_script(visible)
    assert f"operator {WRONG}: mm error" in shown and sum(text.startswith("linear") for text in shown) == 1
    browser.execute_script("document.querySelector('.tree summary').click()")
    assert len(browser.execute_script(visible)) == 1
    browser.execute_script("document.querySelector('.tree summary').click()")
    assert browser.execute_script(visible) == shown

    bars = texts(browser, "section:nth-of-type(4) td:nth-child(4)")
    assert bars and all("█" in text for text in bars)
    assert filter_rows(browser, -1, "relu") == [24, 6] and filter_rows(browser, -1, "") == [24, 24]
    assert sort_rows(browser, -1, 0) == [str(number) for number in range(1, 25)]
    assert sort_rows(browser, -1, 0) == [str(number) for number in range(24, 0, -1)]
    colour = "return getComputedStyle(document.querySelector('.tree .leaf .bad')).backgroundColor"
    assert browser.execute_script(colour) == "rgb(250, 220, 220)"
