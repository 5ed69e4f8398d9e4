# Writes each file of libquant/report/page/ as a C++ raw string into page_NAME.inc, which report_html.cc takes in. Run
# again at configuration whenever such a file changes.
function(nibble_built_in_page out_dir)
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/libquant/report/page/*")
  foreach(file IN LISTS files)
    set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" text)
    file(CONFIGURE OUTPUT "${out_dir}/page_${name}.inc" CONTENT "R\"page(${text})page\"\n" @ONLY)
  endforeach()
endfunction()
