"""The headless Chromium of the operating system, for tests with --full. The fixture `browser` is in conftest.py."""

import importlib.util
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def start():
    """Starts the browser and returns its driver. The test is skipped if the browser or the driver is missing."""
    if CHROMIUM is None or importlib.util.find_spec("selenium") is None:
        pytest.skip("needs Chromium and selenium: apt-get install chromium chromium-driver, pip install --group full")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def open_page(browser, page):
    """Opens a page and returns its data. Fails if the page loads other files or reports an error."""
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    return browser.execute_script("return JSON.parse(document.getElementById('data').textContent)")


def texts(browser, css):
    return browser.execute_script("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css)


def filter_rows(browser, number, word):
    """Types a word into the field above a table. Returns the number of rows and the number of visible rows."""
    script = """
        const field = [...document.querySelectorAll('input.filter')].at(arguments[0]);
        field.value = arguments[1];
        field.dispatchEvent(new Event('input'));
        const rows = [...field.nextElementSibling.tBodies[0].rows];
        return [rows.length, rows.filter(row => row.getBoundingClientRect().height > 0).length];
    """
    return browser.execute_script(script, number, word)


def sort_rows(browser, number, column):
    """Clicks on the head of a column and returns the texts of the column."""
    script = """
        const table = [...document.querySelectorAll('table')].at(arguments[0]);
        table.querySelectorAll('th')[arguments[1]].click();
        return [...table.tBodies[0].rows].map(row => row.cells[arguments[1]].textContent);
    """
    return browser.execute_script(script, number, column)
