# Writes every configs/**/*.yaml as a C++ raw string into built_in_configs.inc, which libquant/config/built_in.cc takes
# in. Run again at configuration whenever such a file changes.
function(nibble_built_in_configs out_dir)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/configs/*.yaml")
  list(SORT files)
  set(lines "")
  foreach(file IN LISTS files)
    set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}/configs" "${file}")
    file(READ "${file}" text)
    string(APPEND lines "{\"${path}\", R\"yaml(${text})yaml\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${out_dir}/built_in_configs.inc" CONTENT "${lines}" @ONLY)
endfunction()
