# Every library comes from the system's packages; nothing is downloaded.
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)

find_library(ONEDNN_LIBRARY dnnl REQUIRED)
find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(dtrain_onednn INTERFACE)
target_link_libraries(dtrain_onednn INTERFACE ${ONEDNN_LIBRARY})

find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
find_path(TURBOJPEG_INCLUDE turbojpeg.h REQUIRED)
add_library(dtrain_turbojpeg INTERFACE)
target_link_libraries(dtrain_turbojpeg INTERFACE ${TURBOJPEG_LIBRARY})

find_path(ASIO_INCLUDE asio.hpp REQUIRED)
add_library(dtrain_asio INTERFACE)
target_compile_definitions(dtrain_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_link_libraries(dtrain_asio INTERFACE Threads::Threads)

foreach(header CLI/CLI.hpp toml++/toml.h tl/expected.hpp nlohmann/json.hpp)
  string(MAKE_C_IDENTIFIER "HAVE_${header}" found)
  find_path(${found} ${header} REQUIRED)
endforeach()
