"""Report pages: every text is escaped, the data come back, nothing is loaded from elsewhere, files are whole."""

import re
from html.parser import HTMLParser

import pytest
from torch_npu.tools.report import Cell, Section, Table, page, read_data, write_text

EVIL = '</script><script>alert(1)</script><!-- & "quoted" \'\u2028 \u00e9'


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    return reader


def evil_page():
    table = Table([EVIL, "n"], [[EVIL, 1], [Cell(EVIL, "bad"), 2.5], [[EVIL, "second"], True]])
    return page(EVIL, [Section(EVIL, [EVIL], [table], code=EVIL)], {EVIL: [EVIL, None, 1.5]})


def test_texts_are_escaped_and_data_come_back():
    text = evil_page()
    found = read(text)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert "alert" not in {tag for tag, _ in found.tags}
    assert EVIL in "".join(found.text)
    assert read_data(text) == {EVIL: [EVIL, None, 1.5]}


def test_nothing_is_loaded_from_elsewhere():
    for tag, attributes in read(evil_page()).tags:
        assert tag not in ("link", "img", "iframe") and not {"src", "href"} & set(attributes)
    assert not re.search(r"https?://|@import|url\(", evil_page())


def test_wrong_tables_and_pages_are_refused():
    with pytest.raises(ValueError, match="2 cells, but the table has 1 columns"):
        Table(["a"], [[1, 2]])
    with pytest.raises(ValueError, match="one of good, warning"):
        Cell("a", "red")
    with pytest.raises(ValueError, match="no report page"):
        read_data("<html></html>")


def test_a_file_is_whole_or_unchanged(tmp_path):
    path = tmp_path / "page.html"
    write_text(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "two \ud800")
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="cannot be written: No such file or directory"):
        write_text(tmp_path / "no" / "page.html", "one")
