"""Entry points, and their test calls, of the libraries beside libascendcl: libhccl and libmsprofiler. abi.py writes them."""

from collections.abc import Sequence

from abi_tables import Abi, Argument, Function
from abi_text import GENERATED, has_entry_in, prototype, refusal, value_of
from c_text import call_text, join_name


def hccl_declaration(argument: Argument) -> str:
    """The C++ parameter of an argument. A communicator is passed as the object behind its handle."""
    return f"const CommunicatorRef& {argument.name}" if argument.type == "HcclComm" else join_name(argument.type, argument.name)


def behaviour_lines(abi: Abi, library: str) -> list[str]:
    lines = []
    for function in abi.functions:
        if has_entry_in(function, library) and function.status == "works":
            declarations = [hccl_declaration(argument) for argument in function.arguments]
            lines.append(call_text(f"Status {function.name}", declarations, ";"))
    return lines


def hccl_api_header(abi: Abi) -> str:
    lines = [f"// The behaviour behind each function of libhccl, called with checked arguments. {GENERATED}", "#pragma once", ""]
    lines += ["#include <memory>", "", '#include "hccl/hccl.h"', '#include "runtime/base/status.h"', ""]
    lines += ["namespace softnpu::hccl {", "", "class Communicator;"]
    lines += ["using CommunicatorRef = std::shared_ptr<Communicator>;", "", "namespace api {", ""]
    lines += behaviour_lines(abi, "hccl")
    return "\n".join([*lines, "", "}  // namespace api", "}  // namespace softnpu::hccl"]) + "\n"


def prof_api_header(abi: Abi) -> str:
    about = "The behaviour behind each function of libmsprofiler that has a generated entry point, called with checked arguments."
    lines = [f"// {about}", f"// {GENERATED}", "#pragma once", ""]
    lines += ['#include "acl/acl_prof.h"', '#include "runtime/base/status.h"', "", "namespace softnpu::prof::api {", ""]
    lines += behaviour_lines(abi, "msprofiler")
    return "\n".join([*lines, "", "}  // namespace softnpu::prof::api"]) + "\n"


def null_checks(function: Function) -> list[str]:
    names = [argument.name for argument in function.arguments if argument.is_pointer and not argument.nullable]
    return [f'if ({name} == nullptr) return null_argument("{name}");' for name in names]


def library_entry(function: Function) -> str:
    checks, passed = null_checks(function), []
    for argument in function.arguments:
        if argument.type == "HcclComm":
            checks.append(f"CommunicatorRef {argument.name}_object;")
            checks.append(f"SOFTNPU_RETURN_IF_ERROR(resolve({argument.name}, &{argument.name}_object));")
        passed.append(f"{argument.name}_object" if argument.type == "HcclComm" else argument.name)
    lines = [prototype(function, " {"), f'  return guarded("{function.name}", [&]() -> Status {{']
    lines += [f"    {check}" for check in checks]
    lines += [call_text(f"return api::{function.name}", passed, ";", indent="    "), "  });", "}"]
    return "\n".join(lines)


def library_entries(abi: Abi, library: str, folder: str, uses: Sequence[str]) -> str:
    lines = [f"// The exported functions of lib{library}: checks, then behaviour. {GENERATED}"]
    lines += [f'#include "{folder}/entry.h"', f'#include "{folder}_api.h"', ""]
    lines += [f"namespace api = softnpu::{folder}::api;", f"using namespace softnpu::{folder}::entry;"]
    lines += [f"using {name};" for name in ("softnpu::Status", *uses)]
    for function in abi.functions:
        if has_entry_in(function, library):
            lines += ["", refusal(function) if function.status == "refuses" else library_entry(function)]
    return "\n".join(lines) + "\n"


def prof_forwards(abi: Abi) -> str:
    """Functions of libascendcl that call the functions of libmsprofiler with the same names, so that programs may link either."""
    lines = [f"// The functions of libmsprofiler that libascendcl passes on. {GENERATED}"]
    lines += ['#include "acl/acl_prof.h"', '#include "runtime/api/prof_library.h"']
    for function in abi.functions:
        if function.library == "msprofiler":
            passed = [f"&::{function.name}", f'"{function.name}"', *(argument.name for argument in function.arguments)]
            body = call_text("return softnpu::forward", passed, ";", indent="  ")
            lines += ["", prototype(function, " {"), body, "}"]
    return "\n".join(lines) + "\n"


HCCL_BAD_ARGUMENTS_HEAD = f"""\
// Calls of libhccl with wrong arguments for the tests. {GENERATED}
//
// HCCL_NULL_CALL(function, argument, call)  `argument` is null where null is refused; everything else is plausible
// HCCL_BAD_COMM_CALL(function, call)        the communicator is `garbage`, a void*
// HCCL_REFUSED_CALL(function, call)         plausible arguments for a function that is not supported
//
// The includer defines the macros it wants (the others are empty) and has in scope: valid_comm; buffer, a void* to 8 KiB.
#ifndef HCCL_NULL_CALL
#define HCCL_NULL_CALL(function, argument, call)
#endif
#ifndef HCCL_BAD_COMM_CALL
#define HCCL_BAD_COMM_CALL(function, call)
#endif
#ifndef HCCL_REFUSED_CALL
#define HCCL_REFUSED_CALL(function, call)
#endif
"""


def hccl_bad_arguments(abi: Abi) -> str:
    lines = []
    for function in abi.functions:
        if not has_entry_in(function, "hccl"):
            continue
        name, arguments = function.name, function.arguments
        plausible = [value_of(argument, {"HcclComm": "valid_comm"}, "buffer", "1") for argument in arguments]
        if function.status == "refuses":
            lines.append(f"HCCL_REFUSED_CALL({name}, {name}({', '.join(plausible)}))")
            continue
        for index, argument in enumerate(arguments):
            if argument.is_pointer and not argument.nullable:
                values = [*plausible[:index], "nullptr", *plausible[index + 1 :]]
                lines.append(f"HCCL_NULL_CALL({name}, {argument.name}, {name}({', '.join(values)}))")
        if any(argument.type == "HcclComm" for argument in arguments):
            values = [value_of(argument, {"HcclComm": "garbage"}, "buffer", "1") for argument in arguments]
            lines.append(f"HCCL_BAD_COMM_CALL({name}, {name}({', '.join(values)}))")
    tail = "\n#undef HCCL_NULL_CALL\n#undef HCCL_BAD_COMM_CALL\n#undef HCCL_REFUSED_CALL\n"
    return "\n".join([HCCL_BAD_ARGUMENTS_HEAD, *lines, tail])


PROF_BAD_ARGUMENTS_HEAD = f"""\
// Calls of libmsprofiler with null where null is refused; everything else is plausible. {GENERATED}
//
// PROF_NULL_CALL(function, argument, call)  the includer defines it, and has in scope: buffer, a void* to 8 KiB.
"""


def prof_bad_arguments(abi: Abi) -> str:
    lines = []
    for function in abi.functions:
        if has_entry_in(function, "msprofiler"):
            plausible = [value_of(argument, {}, "buffer", "1") for argument in function.arguments]
            for index, argument in enumerate(function.arguments):
                if argument.is_pointer and not argument.nullable:
                    values = [*plausible[:index], "nullptr", *plausible[index + 1 :]]
                    lines.append(f"PROF_NULL_CALL({function.name}, {argument.name}, {function.name}({', '.join(values)}))")
    return "\n".join([PROF_BAD_ARGUMENTS_HEAD, *lines, "\n#undef PROF_NULL_CALL\n"])
