# The device ABI, generated from the tables in include/:
#   acl_headers       what a client includes (acl/acl.h ...)
#   acl_sources       also what only the device's own code and its tests see (api.h, entries.cpp ...), in ABI_SOURCE_DIR
#   abi_layout_c/cxx  proof that the declarations hold in both languages, with the documented sizes and offsets
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import yaml" RESULT_VARIABLE yaml_missing OUTPUT_QUIET ERROR_QUIET)
if(yaml_missing)
  message(FATAL_ERROR "${Python3_EXECUTABLE} has no PyYAML, which the code generator needs. "
                      "Run scripts/setup and pass -DPython3_EXECUTABLE=.venv/bin/python, or install PyYAML.")
endif()

set(ABI_TABLES "${PROJECT_SOURCE_DIR}/include")
set(ABI_GENERATOR "${PROJECT_SOURCE_DIR}/codegen/abi.py")
file(GLOB abi_generator_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/codegen/*.py")
set(ABI_DIR "${PROJECT_BINARY_DIR}/generated")
set(ABI_INCLUDE_DIR "${ABI_DIR}/include")
set(ABI_SOURCE_DIR "${ABI_DIR}/src")

set(abi_headers
    acl/acl.h acl/acl_base.h acl/acl_rt.h acl/acl_mdl.h acl/acl_prof.h acl/error_codes/rt_error_codes.h
    acl/error_codes/ge_error_codes.h aclnn/acl_meta.h aclnn/aclnn_base.h hccl/hccl_types.h hccl/hccl.h)
set(abi_sources
    abi_layout_check.inc abi_layout_check.c abi_layout_check.cpp api.h entries.cpp error_names.h error_names.cpp
    bad_arguments.inc hccl_api.h hccl_entries.cpp hccl_bad_arguments.inc prof_api.h
    prof_entries.cpp prof_forwards.cpp prof_bad_arguments.inc)
list(TRANSFORM abi_headers PREPEND "${ABI_INCLUDE_DIR}/")
list(TRANSFORM abi_sources PREPEND "${ABI_SOURCE_DIR}/")

# The generator leaves unchanged files alone; as byproducts of a stamp they then do not rebuild what includes them.
add_custom_command(
  OUTPUT "${ABI_DIR}/stamp"
  BYPRODUCTS ${abi_headers} ${abi_sources}
  COMMAND "${Python3_EXECUTABLE}" "${ABI_GENERATOR}" --tables "${ABI_TABLES}" --out "${ABI_DIR}"
  COMMAND "${CMAKE_COMMAND}" -E touch "${ABI_DIR}/stamp"
  DEPENDS ${abi_generator_sources} "${ABI_TABLES}/types.yaml" "${ABI_TABLES}/functions.yaml"
  COMMENT "Generating the device ABI"
  VERBATIM)
add_custom_target(abi_generate DEPENDS "${ABI_DIR}/stamp")

add_library(acl_headers INTERFACE)
set_target_properties(acl_headers PROPERTIES EXPORT_NAME headers)
target_include_directories(
  acl_headers INTERFACE "$<BUILD_INTERFACE:${ABI_INCLUDE_DIR}>" "$<INSTALL_INTERFACE:${TORCH_NPU_INSTALL_INCLUDEDIR}>")
add_dependencies(acl_headers abi_generate)

add_library(acl_sources INTERFACE)
target_include_directories(acl_sources INTERFACE "${ABI_SOURCE_DIR}")
target_link_libraries(acl_sources INTERFACE acl_headers)

add_library(abi_layout_c OBJECT "${ABI_SOURCE_DIR}/abi_layout_check.c")
add_library(abi_layout_cxx OBJECT "${ABI_SOURCE_DIR}/abi_layout_check.cpp")
target_compile_options(abi_layout_c PRIVATE -pedantic)
target_link_libraries(abi_layout_c PRIVATE torch_npu_options acl_sources)
target_link_libraries(abi_layout_cxx PRIVATE torch_npu_options acl_sources)

install(
  DIRECTORY "${ABI_INCLUDE_DIR}/"
  DESTINATION "${TORCH_NPU_INSTALL_INCLUDEDIR}"
  COMPONENT softnpu
  FILES_MATCHING
  PATTERN "*.h")
