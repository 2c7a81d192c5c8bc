"""HTML pages of the tools: page.py. `from torch_npu.tools.report import Cell, Node, Section, Table, page, write_text`."""

from .page import Cell, Node, Section, Table, page, read_data, write_text

__all__ = ["Cell", "Node", "Section", "Table", "page", "read_data", "write_text"]
