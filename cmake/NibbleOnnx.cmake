# nibble_onnx: ONNX's C++ library (>= 1.19) with the protobuf it was built against.
# The include folder is not SYSTEM on purpose: it must come before the distribution's, whose libonnx-dev may
# be 1.12 without INT4; libquant/model/onnx_version.h asserts the version that was taken.
find_package(Protobuf REQUIRED)
find_package(ONNX 1.19 CONFIG QUIET HINTS "${NIBBLE_ONNX_PREFIX}" NO_DEFAULT_PATH)
if(NOT ONNX_FOUND)
  find_package(ONNX CONFIG REQUIRED HINTS "${NIBBLE_ONNX_PREFIX}")
endif()
add_library(nibble_onnx INTERFACE)
target_link_libraries(nibble_onnx INTERFACE ONNX::onnx)
