# nibble_test(NAME DIR folder LINK libraries... [LABELS ...])
# One Catch2 program of every *_test.cc below DIR, each case a ctest test.
find_package(Catch2 REQUIRED)
include(Catch)
function(nibble_test name)
  cmake_parse_arguments(arg "" "DIR" "LINK;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${arg_DIR}/*_test.cc")
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE nibble_flags nibble_catch_main ${arg_LINK})
  target_compile_definitions(${name} PRIVATE
    NIBBLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" NIBBLE_SHARED_MODELS="${NIBBLE_SHARED_MODELS}"
    NIBBLE_ONNX_DATA="${NIBBLE_ONNX_DATA}")
  catch_discover_tests(${name} TEST_PREFIX "${name}: " PROPERTIES TIMEOUT 600 LABELS "${arg_LABELS}")
endfunction()
