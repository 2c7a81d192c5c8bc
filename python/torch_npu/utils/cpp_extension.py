"""Builds C++ extensions that use the device: torch.utils.cpp_extension with the headers and the library of torch_npu.

    # setup.py
    from setuptools import setup
    from torch.utils.cpp_extension import BuildExtension
    from torch_npu.utils.cpp_extension import NpuExtension

    setup(name="my_ops", ext_modules=[NpuExtension("my_ops", ["my_ops.cpp"])], cmdclass={"build_ext": BuildExtension})

    # or, compiled when the program runs
    my_ops = load("my_ops", ["my_ops.cpp"])

docs/extending.md has an example.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import setuptools
from torch.utils import cpp_extension

__all__ = ["NpuExtension", "include_paths", "library_paths", "load"]

_PACKAGE = Path(__file__).absolute().parents[1]
_STANDARD = "-std=c++20"


def include_paths() -> list[str]:
    """The folders of the headers of torch_npu, AscendCL and torch."""
    return [str(_PACKAGE / "include"), *cpp_extension.include_paths()]


def library_paths() -> list[str]:
    """The folders of libtorch_npu.so and the libraries of torch."""
    return [str(_PACKAGE / "lib"), *cpp_extension.library_paths()]


def NpuExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> setuptools.Extension:
    """A setuptools.Extension for C++ code that uses torch and the device; build it with torch.utils.cpp_extension.BuildExtension.

    The arguments are those of setuptools.Extension. Folders and libraries of the caller come before those of torch_npu. The code
    is C++20 unless extra_compile_args has another -std. AscendCL is not linked: see NPU_ACL in torch_npu/extension.h.
    """
    parameters = list(inspect.signature(setuptools.Extension.__base__).parameters)[2:]
    if len(args) > len(parameters):
        raise TypeError(f"NpuExtension takes at most {len(parameters) + 2} positional arguments, but {len(args) + 2} were given")
    options = {**dict(zip(parameters, args, strict=False)), **kwargs}
    for option, added in {
        "include_dirs": include_paths()[:1],
        "library_dirs": library_paths()[:1],
        "runtime_library_dirs": library_paths()[:1],
        "libraries": ["torch_npu"],
    }.items():
        options[option] = [*(options.get(option) or []), *added]
    options["extra_compile_args"] = _with_standard(options.get("extra_compile_args") or [])
    return cpp_extension.CppExtension(name, sources, **options)


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Compiles an extension, if it is not up to date, and loads it: torch.utils.cpp_extension.load for NPUs.

    Returns the module. With is_python_module=False, for libraries that only register operators, it returns None. Needs Ninja.
    """
    for option, value in {"extra_cflags": extra_cflags, "extra_ldflags": extra_ldflags}.items():
        if value is not None and not isinstance(value, (list, tuple)):
            raise TypeError(f"{option} is a list of options, but got {value!r}")
    if is_standalone:
        raise ValueError("a standalone program cannot be loaded; build it with include_paths() and library_paths()")
    library = library_paths()[0]
    return cpp_extension.load(
        name,
        sources,
        extra_cflags=_with_standard(list(extra_cflags or [])),
        extra_ldflags=[*(extra_ldflags or []), f"-L{library}", "-ltorch_npu", f"-Wl,-rpath,{library}"],
        extra_include_paths=[*(extra_include_paths or []), *include_paths()[:1]],
        build_directory=build_directory,
        verbose=verbose,
        is_python_module=is_python_module,
        keep_intermediates=keep_intermediates,
    )


def _with_standard(options: Any) -> Any:
    if isinstance(options, dict):
        return {**options, "cxx": _with_standard(options.get("cxx", []))}
    return list(options) if any(option.startswith("-std=") for option in options) else [*options, _STANDARD]
