"""Loads test files of a PyTorch checkout for the device npu, lists their tests and runs single ones.

    files = Files(Path("pytorch/test"))
    files.collect("test_view_ops.py").tests      # ["test_view_ops.py::TestViewOpsNPU::test_flatten_view_npu", ...]
    files.execute("test_view_ops.py::TestViewOpsNPU::test_flatten_view_npu")      # a Result

Both import the file into this process, and the tests use the device: call them in a process that may crash.
"""

import dataclasses
import importlib.util
import os
import sys
import traceback
import unittest
from pathlib import Path

from tests.ops.runner import Result

from . import distributed

NO_COLLECTIVE = "passed without a collective of hccl"
EXPECTED_FAILURE = "failed, as PyTorch expects"


@dataclasses.dataclass
class Collected(Result):
    tests: list = dataclasses.field(default_factory=list)


class Outcome(unittest.TestResult):
    """The result of one test: its first failure."""

    def __init__(self):
        super().__init__()
        self.result = Result("passed", samples=1)

    def _book(self, status, detail):
        if self.result.status != "failed":
            self.result = Result(status, detail[-3000:], 1)

    def addError(self, test, error):
        # Some decorators of PyTorch skip with pytest's exceptions.
        skips = error[0].__name__ in ("Skipped", "XFailed")
        self._book("skipped" if skips else "failed", "".join(traceback.format_exception(*error)))

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(test, error)

    def addSkip(self, test, reason):
        self._book("skipped", str(reason))

    def addExpectedFailure(self, test, error):
        self._book("skipped", EXPECTED_FAILURE)

    def addUnexpectedSuccess(self, test):
        self._book("failed", "passes, though PyTorch expects a failure")


class Files:
    def __init__(self, folder):
        self._folder = Path(folder).resolve()
        self._classes = {}

    def collect(self, file):
        """Sets `tests` to the file's tests for npu, sorted by name. It fails if the file cannot be loaded."""
        try:
            self._load(file)
        except (Exception, SystemExit):
            return Collected("failed", traceback.format_exc())
        return Collected(
            "passed",
            tests=[
                f"{file}::{name}::{method}"
                for name, cls in sorted(self._load(file).items())
                for method in unittest.TestLoader().getTestCaseNames(cls)
            ],
        )

    def execute(self, id):
        """Reports a distributed test as skipped if it passed without a collective of hccl."""
        file, name, method = id.split("::")
        outcome = Outcome()
        cls = self._load(file)[name]
        tests = unittest.TestSuite([cls(method)])
        if not distributed.is_distributed(file):
            tests.run(outcome)
            return outcome.result
        distributed.start_anew(cls)
        with distributed.Collectives() as collectives:
            tests.run(outcome)
        if outcome.result.status == "passed" and not collectives.count:
            return Result("skipped", NO_COLLECTIVE, 1)
        if outcome.result.status == "failed":
            outcome.result.detail += collectives.errors[-3000:]
        return outcome.result

    def _load(self, file):
        if file not in self._classes:
            self._classes[file] = self._import(file)
        return self._classes[file]

    def _import(self, file):
        # PyTorch reads it when it instantiates the file's classes for a device.
        os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "npu"
        import torch  # noqa: F401
        import torch_npu  # noqa: F401
        from torch.testing._internal import common_device_type, common_optimizers

        base = common_device_type.PrivateUse1TestBase
        if distributed.is_distributed(file):
            distributed.teach()
        base.setUpClass()  # without it the first class is named differently
        for optimizer in common_optimizers.optim_db:
            if "cuda" in optimizer.supports_fused_on and "npu" not in optimizer.supports_fused_on:
                optimizer.supports_fused_on = (*optimizer.supports_fused_on, "npu")

        path = self._folder / file
        os.chdir(self._folder)
        sys.path[:0] = [str(self._folder), str(path.parent)]
        sys.argv = [str(path)]
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if distributed.is_distributed(file):
            distributed.teach_module(module)

        def is_chosen(cls):
            if distributed.is_distributed(file):
                return distributed.has_ranks(cls)
            return issubclass(cls, base) and cls is not base

        return {
            name: cls
            for name, cls in vars(module).items()
            if isinstance(cls, type) and cls.__module__ == module.__name__ and is_chosen(cls)
        }
