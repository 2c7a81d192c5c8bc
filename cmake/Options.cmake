# torch_npu_options: how every target of this project is compiled, and where its files are installed.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_package(Threads REQUIRED)

add_library(torch_npu_options INTERFACE)
target_compile_options(torch_npu_options INTERFACE -Wall -Wextra -ffp-contract=off)
if(TORCH_NPU_SANITIZE)
  set(sanitize "-fsanitize=${TORCH_NPU_SANITIZE}")
  target_compile_options(torch_npu_options INTERFACE ${sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(torch_npu_options INTERFACE -Wno-maybe-uninitialized)  # instrumented code misleads g++
  target_link_options(torch_npu_options INTERFACE ${sanitize})
endif()

# compile_in_groups(TARGET): g++ takes eight sources at once. Most of the time of a small source goes into torch's templates, which
# are then instantiated once per group. Names in anonymous namespaces must differ within a group.
function(compile_in_groups target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TORCH_NPU_COMPILE_IN_GROUPS} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# Inside a wheel everything lies in the package's own folder.
if(SKBUILD)
  set(TORCH_NPU_INSTALL_LIBDIR torch_npu/lib)
  set(TORCH_NPU_INSTALL_INCLUDEDIR torch_npu/include)
else()
  set(TORCH_NPU_INSTALL_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
  set(TORCH_NPU_INSTALL_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
