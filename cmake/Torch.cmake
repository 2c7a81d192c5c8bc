# torch_by_path: headers and libraries of the torch package that Python imports, by their paths. TorchConfig.cmake is not asked,
# because beside a CUDA build of torch it insists on a CUDA toolkit, which nothing here uses.
set(torch_query
    "import os, torch; print(os.path.dirname(torch.__file__), torch.__version__, int(torch.compiled_with_cxx11_abi()), sep=';')")
execute_process(
  COMMAND "${Python3_EXECUTABLE}" -c "${torch_query}"
  OUTPUT_VARIABLE torch_answer
  ERROR_VARIABLE torch_error
  OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE torch_missing)
if(torch_missing)
  message(FATAL_ERROR "${Python3_EXECUTABLE} cannot import torch, which the plugin is built against:\n${torch_error}")
endif()
list(GET torch_answer 0 TORCH_DIR)
list(GET torch_answer 1 TORCH_VERSION)
list(GET torch_answer 2 torch_cxx11_abi)
message(STATUS "torch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(torch_by_path INTERFACE IMPORTED)
target_include_directories(torch_by_path SYSTEM INTERFACE "${TORCH_DIR}/include" "${TORCH_DIR}/include/torch/csrc/api/include")
target_compile_definitions(torch_by_path INTERFACE "_GLIBCXX_USE_CXX11_ABI=${torch_cxx11_abi}")
foreach(name c10 torch_cpu torch)
  find_library(torch_library_${name} ${name} PATHS "${TORCH_DIR}/lib" NO_DEFAULT_PATH NO_CACHE REQUIRED)
  target_link_libraries(torch_by_path INTERFACE "${torch_library_${name}}")
endforeach()

# torch and the plugin hand C++ objects to each other, so they must share one C++ library.
execute_process(
  COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.so
  OUTPUT_VARIABLE shared_cxx_library
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT IS_ABSOLUTE "${shared_cxx_library}")
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no libstdc++.so and would link a second copy of the C++ library beside torch's. "
                      "Name another compiler, for example CC=/usr/bin/gcc CXX=/usr/bin/g++.")
endif()
