"""HTML pages of the tools: page.py. `from torch_npu.tools.report import Cell, Section, Table, page, write_text`."""

from .page import Cell, Section, Table, page, read_data, write_text

__all__ = ["Cell", "Section", "Table", "page", "read_data", "write_text"]
