# Compiler settings shared by every target, and the options a user may set.
option(NIBBLE_WERROR "Treat warnings as errors" ON)
option(NIBBLE_BENCH "Build the micro-benchmarks" OFF)
set(NIBBLE_MARCH "x86-64-v3" CACHE STRING
    "-march for all code (empty: the compiler's default). One value for every file: results depend on it")
set(NIBBLE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=; empty for none")
set(NIBBLE_ONNX_PREFIX "" CACHE PATH "Where ONNX >= 1.19 is installed; ./dev sets it")
set(NIBBLE_SHARED_MODELS "${CMAKE_SOURCE_DIR}/../shared/models" CACHE PATH
    "Folder of real models for tests; tests say so when it is absent")
set(NIBBLE_ONNX_DATA "" CACHE PATH "ONNX's backend conformance data; ./dev sets it")
set(NIBBLE_ORACLE_PYTHON "" CACHE FILEPATH "Python with ONNX Runtime, for tests only; ./dev sets it")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(nibble_flags INTERFACE)
target_include_directories(nibble_flags INTERFACE "${CMAKE_SOURCE_DIR}")
# Contraction would make results depend on the compiler's mood; FMA comes only through Eigen or intrinsics.
target_compile_options(nibble_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports optionals moved out of a StatusOr; the sanitizer build looks for the real thing.
  target_compile_options(nibble_flags INTERFACE -Wno-maybe-uninitialized)
endif()
target_compile_definitions(nibble_flags INTERFACE EIGEN_DONT_PARALLELIZE)
if(NIBBLE_WERROR)
  target_compile_options(nibble_flags INTERFACE -Werror)
endif()
if(NIBBLE_MARCH)
  target_compile_options(nibble_flags INTERFACE "-march=${NIBBLE_MARCH}")
  if(NIBBLE_MARCH MATCHES "^x86-64-v[234]$")
    # An older CPU then gets the loader's clear sentence instead of an illegal instruction.
    include(CheckLinkerFlag)
    check_linker_flag(CXX "-Wl,-z,${NIBBLE_MARCH}" NIBBLE_LINKER_KNOWS_ISA)
    if(NIBBLE_LINKER_KNOWS_ISA)
      target_link_options(nibble_flags INTERFACE "-Wl,-z,${NIBBLE_MARCH}")
    endif()
  endif()
endif()
if(NIBBLE_SANITIZE)
  target_compile_options(nibble_flags INTERFACE "-fsanitize=${NIBBLE_SANITIZE}" -fno-omit-frame-pointer
                         -fno-sanitize-recover=undefined)
  target_link_options(nibble_flags INTERFACE "-fsanitize=${NIBBLE_SANITIZE}")
endif()
