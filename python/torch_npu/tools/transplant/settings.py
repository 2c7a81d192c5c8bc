"""What the user asked for, in a form that worker processes receive."""

from __future__ import annotations

from dataclasses import dataclass, field

from .custom_rules import CustomRules


@dataclass
class Settings:
    version: str = ""
    specify_device: bool = False
    similar: bool = False
    amp_model: str = ""
    agnostic: bool = False
    distributed: bool = False
    main: str = ""
    """The entry file of the distributed program, relative to the input."""
    target_model: str = "model"
    single_file: bool = False
    rules: CustomRules = field(default_factory=CustomRules)
    replaceable: frozenset[str] = frozenset()
    """Functions that npu does not support and --similar may replace."""

    @property
    def one_device(self) -> bool:
        """Whether each process has one device, so that device names lose their index."""
        return self.specify_device or self.distributed
