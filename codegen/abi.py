"""Writes C headers, entry points, layout checks, test calls and documentation from the ABI tables.

    python codegen/abi.py --out build/generated        # headers under include/, sources under src/
    python codegen/abi.py --docs docs/acl.md           # the published table
    python codegen/abi.py --check docs/acl.md          # fails if the published table differs

A mistake in a table stops it with one sentence. A file is written only if its content changes, so that nothing is compiled twice.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from abi_libraries import hccl_api_header, hccl_bad_arguments, library_entries, prof_api_header, prof_bad_arguments, prof_forwards
from abi_tables import STATUS_WORDS, Abi, Argument, Function, Header, Section
from abi_text import GENERATED, has_entry_in, prototype, refusal, value_of
from c_text import call_text, join_name
from output_files import holds, write_if_changed
from table_rows import TableError

STATUS_TEXT = dict(zip(STATUS_WORDS, ("works", "not supported"), strict=True))
OBJECT_OF_HANDLE = {
    "aclrtStream": "Stream",
    "aclrtEvent": "Event",
    "aclrtContext": "Context",
    "aclmdlRI": "GraphSlot",
    "aclrtTaskGrp": "TaskGroup",
}


# ---- headers and layout check ----

# acl_base.h declares these beyond the tables.
BASE_MACROS = """\
// Marks what the libraries export.
#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))

// Any int is a valid value of an enum in C, and with this in C++ too: a wrong argument is an error code, not undefined behaviour.
#ifdef __cplusplus
#define ACL_ENUM_BASE : int
#else
#define ACL_ENUM_BASE
#endif
"""

# What hccl.h declares beyond the tables: the caller's header decides which version of the configuration it is.
CONFIG_INIT = """\
// Marks every setting as not set. Callers have it in their own code, so that the library learns which fields they know.
static inline void HcclCommConfigInit(HcclCommConfig *config) {
  typedef struct {
    size_t size;
    uint32_t magic;
    uint32_t version;
    uint64_t unused;
  } HcclCommConfigInfo;
  HcclCommConfigInfo *const info = (HcclCommConfigInfo *)(void *)config;
  info->size = sizeof(HcclCommConfig);
  info->magic = HCCL_COMM_CONFIG_MAGIC_WORD;
  info->version = HCCL_COMM_CONFIG_VERSION;
  info->unused = 0;
  config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
  config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
  config->hcclCommName[0] = '\\0';
  config->hcclUdi[0] = '\\0';
  config->hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
  config->hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
  config->hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
  config->hcclWorldRankID = 0;
  config->hcclJobID = 0;
  config->aclGraphZeroCopyEnable = 0;
  config->hcclExecTimeOut = (int32_t)HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
  config->hcclAlgo[0] = '\\0';
  config->hcclRetryEnable[0] = '\\0';
  config->hcclRetryParams[0] = '\\0';
  config->hcclBufferName[0] = '\\0';
  config->hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
}
"""


def header_text(header: Header) -> str:
    system = [f"#include <{name}>" for name in header.includes if name.startswith("std")]
    own = [f'#include "{name}"' for name in header.includes if not name.startswith("std")]
    lines = [f"// {header.about}. {GENERATED}", "#pragma once", ""]
    lines += [*system, *([""] if system else []), *own, *([""] if own else [])]
    lines += [BASE_MACROS] if header.path == "acl/acl_base.h" else []
    declares = any(section.types or section.functions for section in header.sections)
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""] if declares else []
    for section in header.sections:
        lines += [f"// {section.title}.", *section_lines(section), ""]
    lines += [CONFIG_INIT] if header.path == "hccl/hccl.h" else []
    lines += ["#ifdef __cplusplus", "}", "#endif"] if declares else []
    return "\n".join(lines).rstrip() + "\n"


def in_parentheses(value: str) -> str:
    return f"({value})" if value.startswith("-") else value


def section_lines(section: Section) -> list[str]:
    lines = [f"#define {name} {in_parentheses(value)}" for name, value in section.codes + section.constants]
    for new_type in section.types:
        if new_type.constants:
            members = [f"  {name} = {value}," for name, value in new_type.constants]
            lines += [f"typedef enum {new_type.name} ACL_ENUM_BASE {{", *members, f"}} {new_type.name};"]
        elif new_type.fields:
            fields = [f"  {declaration};" for declaration, _, _ in new_type.fields]
            lines += [f"typedef {new_type.kind} {new_type.name} {{", *fields, f"}} {new_type.name};"]
        elif new_type.kind == "callback" and "(*)" in new_type.text:
            lines += [f"typedef {new_type.text.replace('(*)', f'(*{new_type.name})', 1)};"]
        else:
            lines += [f"typedef {join_name(new_type.text, new_type.name)};"]
    return lines + [prototype(function, ";", prefix="ACL_FUNC_VISIBILITY ") for function in section.functions]


def layout_check(abi: Abi) -> str:
    conditions = []
    for section in abi.sections:
        conditions += [f"{name} == {value}" for name, value in section.codes + section.constants]
        for new_type in section.types:
            if new_type.size:
                conditions += [f"sizeof({new_type.name}) == {new_type.size}", f"alignof({new_type.name}) == {new_type.align}"]
            conditions += [f"{name} == {value}" for name, value in new_type.constants]
            conditions += [f"offsetof({new_type.name}, {name}) == {offset}" for _, name, offset in new_type.fields]
    lines = [f"// What the tables promise, asked of the compiler. {GENERATED}"]
    return "\n".join(lines + [f"SOFTNPU_ASSERT({condition});" for condition in conditions]) + "\n"


def layout_source(abi: Abi, assertion: str, system_headers: Sequence[str]) -> str:
    lines = [f"// {GENERATED}", *(f"#include <{name}>" for name in system_headers), ""]
    lines += [*(f'#include "{name}"' for name in abi.headers), ""]
    lines += [f"#define SOFTNPU_ASSERT(condition) {assertion}(condition, #condition)", '#include "abi_layout_check.inc"']
    return "\n".join(lines) + "\n"


# ---- entry points ----


def behaviour_declaration(argument: Argument) -> str:
    """The parameter of the hand-written function: a handle arrives as the object that it stands for."""
    if argument.type not in OBJECT_OF_HANDLE:
        return join_name(argument.type, argument.name)
    may_be_null = argument.nullable and argument.type != "aclrtStream"
    return f"{OBJECT_OF_HANDLE[argument.type]}{'*' if may_be_null else '&'} {argument.name}"


def api_header(abi: Abi) -> str:
    lines = [f"// The behaviour behind each C function, called with checked arguments. {GENERATED}", "#pragma once", ""]
    lines += ['#include "acl/acl.h"', '#include "runtime/base/status.h"', "", "namespace softnpu {", ""]
    lines += [*(f"class {name};" for name in sorted(OBJECT_OF_HANDLE.values())), "", "namespace api {"]
    for title, _, functions in abi.groups:
        working = [function for function in functions if has_entry_in(function, "ascendcl") and function.status == "works"]
        lines += ["", f"// {title}."] if working else []
        for function in working:
            declarations = [behaviour_declaration(argument) for argument in function.arguments]
            lines.append(call_text(f"Status {function.name}", declarations, ";"))
    return "\n".join([*lines, "", "}  // namespace api", "}  // namespace softnpu"]) + "\n"


def entry(function: Function) -> str:
    checks = [] if "anytime" in function.flags else ["SOFTNPU_RETURN_IF_ERROR(ready());"]
    for argument in function.arguments:
        if argument.is_pointer and not argument.nullable and argument.type not in OBJECT_OF_HANDLE:
            checks.append(f'if ({argument.name} == nullptr) return null_argument("{argument.name}");')
    passed = []
    for argument in function.arguments:
        kind, target = OBJECT_OF_HANDLE.get(argument.type), f"{argument.name}_object"
        if not kind:
            passed.append(argument.name)
            continue
        may_be_null = argument.nullable and kind != "Stream"
        nullable = f"/*nullable=*/{str(argument.nullable).lower()}, " if kind == "Stream" else ""
        resolve = f'SOFTNPU_RETURN_IF_ERROR(resolve_{kind.lower()}({argument.name}, "{argument.name}", {nullable}&{target}));'
        checks += [f"{kind}* {target} = nullptr;", f"if ({argument.name} != nullptr) {resolve}" if may_be_null else resolve]
        passed.append(target if may_be_null else f"*{target}")
    lines = [prototype(function, " {"), f'  return guarded("{function.name}", [&]() -> Status {{']
    lines += [f"    {check}" for check in checks]
    lines += [call_text(f"return api::{function.name}", passed, ";", indent="    "), "  });", "}"]
    return "\n".join(lines)


def entries(abi: Abi) -> str:
    lines = [f"// The exported C functions: checks, then behaviour. {GENERATED}"]
    lines += ['#include "api.h"', '#include "runtime/api/entry.h"', ""]
    lines += ["namespace api = softnpu::api;", "using namespace softnpu::entry;"]
    lines += [f"using softnpu::{name};" for name in sorted((*OBJECT_OF_HANDLE.values(), "Status"))]
    for function in abi.functions:
        if has_entry_in(function, "ascendcl"):
            lines += ["", refusal(function) if function.status == "refuses" else entry(function)]
    return "\n".join(lines) + "\n"


ERROR_NAMES_HEADER = f"""\
// {GENERATED}
#pragma once

#include "acl/acl_base.h"

namespace softnpu {{

// The name of a code, such as "ACL_ERROR_RT_PARAM_INVALID"; nullptr for a number that no header names.
const char* error_name(aclError code);

}}  // namespace softnpu
"""


def error_names(abi: Abi) -> str:
    names: dict[int, str] = {}
    for section in abi.sections:
        for name, value in section.codes:
            names.setdefault(int(value), name)
    lines = [f"// {GENERATED}", '#include "error_names.h"', "", "namespace softnpu {", ""]
    lines += ["const char* error_name(aclError code) {", "  switch (code) {"]
    lines += [f'    case {code}:\n      return "{name}";' for code, name in sorted(names.items())]
    return "\n".join([*lines, "    default:\n      return nullptr;", "  }", "}", "", "}  // namespace softnpu"]) + "\n"


# ---- test calls ----

BAD_ARGUMENTS_HEAD = f"""\
// Calls with wrong arguments for the tests. {GENERATED}
//
// ACL_NULL_CALL(function, argument, call)  `argument` is null where null is refused; everything else is plausible
// ACL_ANY_CALL(function, call)             every argument is nonsense, but what is read or written through a pointer exists
// ACL_REFUSED_CALL(function, call)         plausible arguments for a function that is not supported
//
// The includer defines the macros it wants (the others are empty) and has in scope what they use:
//   buffer   void*, zeroed, at least 4 KiB
//   valid_stream, valid_event, valid_context, valid_graphslot   for ACL_NULL_CALL
//   garbage  uintptr_t, taken for handles in ACL_ANY_CALL
//   stray    uintptr_t, taken for device addresses in ACL_ANY_CALL; a wrong host address may crash in a copy
//   number   any integer, cast to the type of each number and enum in ACL_ANY_CALL
#ifndef ACL_NULL_CALL
#define ACL_NULL_CALL(function, argument, call)
#endif
#ifndef ACL_ANY_CALL
#define ACL_ANY_CALL(function, call)
#endif
#ifndef ACL_REFUSED_CALL
#define ACL_REFUSED_CALL(function, call)
#endif
"""
BAD_ARGUMENTS_TAIL = "\n#undef ACL_NULL_CALL\n#undef ACL_ANY_CALL\n#undef ACL_REFUSED_CALL\n"
NOT_WITH_NONSENSE = ("aclInit", "aclFinalize", "aclFinalizeReference")  # they decide whether the other calls can work


def bad_arguments(abi: Abi) -> str:
    lines = []
    valid_handles = {handle: f"valid_{name.lower()}" for handle, name in OBJECT_OF_HANDLE.items()}
    for function in abi.functions:
        if function.library != "ascendcl" or function.returns != "aclError":
            continue
        name, arguments = function.name, function.arguments
        plausible = [value_of(argument, valid_handles, "buffer", "1") for argument in arguments]
        for index, argument in enumerate(arguments):
            if function.status == "works" and argument.is_pointer and not argument.nullable:
                values = [*plausible[:index], "nullptr", *plausible[index + 1 :]]
                lines.append(f"ACL_NULL_CALL({name}, {argument.name}, {name}({', '.join(values)}))")
        if name not in NOT_WITH_NONSENSE and all(argument.kind != "callback" for argument in arguments):
            nonsense = [value_of(argument, {"": "garbage"}, "stray", "number") for argument in arguments]
            lines.append(f"ACL_ANY_CALL({name}, {name}({', '.join(nonsense)}))")
        if function.status == "refuses":
            in_buffer = [value_of(argument, {}, "buffer", "1") for argument in arguments]
            lines.append(f"ACL_REFUSED_CALL({name}, {name}({', '.join(in_buffer)}))")
    return "\n".join([BAD_ARGUMENTS_HEAD, *lines, BAD_ARGUMENTS_TAIL])


# ---- documentation ----


DOCUMENTATION_GUIDE = """\
- *works*: the library that its section names implements it.
- *not supported*: it returns `ACL_ERROR_RT_FEATURE_NOT_SUPPORT`, in libhccl `HCCL_E_NOT_SUPPORT`, with a message that names it.

`?` behind a name: the argument may be null; a null stream is the default stream of the current context. A function that works
returns `ACL_ERROR_INVALID_PARAM` for null in any other pointer or handle, and `ACL_ERROR_UNINITIALIZE` before `aclInit` and after
`aclFinalize` unless it is marked *any time*. Functions of libopapi return `ACLNN_ERR_PARAM_NULLPTR` and need no `aclInit`; those
of libhccl return `HCCL_E_PTR`. libascendcl also exports the functions of libmsprofiler, so that programs may link either."""


def documentation(abi: Abi) -> str:
    counts = [f"{sum(function.status == word for function in abi.functions)} {text}" for word, text in STATUS_TEXT.items()]
    lines = ["<!-- Generated by `python codegen/abi.py --docs docs/acl.md` from include/functions.yaml. -->"]
    lines += ["# AscendCL functions", "", f"{len(abi.functions)} functions: {', '.join(counts)}.", ""]
    lines += [DOCUMENTATION_GUIDE]
    for title, library, functions in abi.groups:
        lines += ["", f"## {title}", "", f"In lib{library}.so.", ""]
        lines += ["| function | signature | status | remark |", "|---|---|---|---|"]
        for function in functions:
            remarks = ["any time"] * ("anytime" in function.flags) + [function.remark] * bool(function.remark)
            lines.append(f"| {function.name} | `{function.row.key}` | {STATUS_TEXT[function.status]} | {'; '.join(remarks)} |")
    return "\n".join(lines) + "\n"


# ---- command line ----


def outputs(abi: Abi) -> dict[str, str]:
    """Path below --out -> content."""
    return {
        **{f"include/{header.path}": header_text(header) for header in abi.headers.values()},
        "src/abi_layout_check.inc": layout_check(abi),
        "src/abi_layout_check.c": layout_source(abi, "_Static_assert", ("stdalign.h", "stddef.h")),
        "src/abi_layout_check.cpp": layout_source(abi, "static_assert", ("cstddef",)),
        "src/api.h": api_header(abi),
        "src/entries.cpp": entries(abi),
        "src/error_names.h": ERROR_NAMES_HEADER,
        "src/error_names.cpp": error_names(abi),
        "src/bad_arguments.inc": bad_arguments(abi),
        "src/hccl_api.h": hccl_api_header(abi),
        "src/hccl_entries.cpp": library_entries(abi, "hccl", "hccl", ["softnpu::hccl::CommunicatorRef"]),
        "src/hccl_bad_arguments.inc": hccl_bad_arguments(abi),
        "src/prof_api.h": prof_api_header(abi),
        "src/prof_entries.cpp": library_entries(abi, "msprofiler", "prof", []),
        "src/prof_forwards.cpp": prof_forwards(abi),
        "src/prof_bad_arguments.inc": prof_bad_arguments(abi),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=Path(__file__).resolve().parent.parent / "include")
    parser.add_argument("--out", type=Path, help="write headers and sources into this folder")
    parser.add_argument("--docs", type=Path, help="write the documentation into this file")
    parser.add_argument("--check", type=Path, help="fail if this file is not what --docs would write")
    options = parser.parse_args()
    try:
        abi = Abi(options.tables)
    except TableError as error:
        sys.exit(str(error))
    for name, content in outputs(abi).items() if options.out else ():
        write_if_changed(options.out / name, content)
    if options.docs:
        write_if_changed(options.docs, documentation(abi))
    if options.check and not holds(options.check, documentation(abi)):
        sys.exit(f"{options.check}: out of step with the tables, run `python codegen/abi.py --docs docs/acl.md`.")


if __name__ == "__main__":
    main()
