# One set of flags for every target. Contraction is off so that own kernels give the same bits whatever instructions
# the compiler picks; warnings are errors under g++ and clang.
add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno -fno-trapping-math)
add_compile_options($<$<CONFIG:Release>:-O2>)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # assertions (DTRAIN_CHECK) do not depend on NDEBUG

# What Debian hardens its packages with, for modules that read what others have written, in every Release build: so the
# build of the package finds the objects of an ordinary one in the compiler's cache.
set(DTRAIN_HARDENING -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wformat-security
                     -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
list(TRANSFORM DTRAIN_HARDENING REPLACE "(.+)" "$<$<CONFIG:Release>:\\1>")

set(DTRAIN_SANITIZE "" CACHE STRING "address, undefined, thread: sanitizers to build with, comma-separated")
if(DTRAIN_SANITIZE)
  add_compile_options(-fsanitize=${DTRAIN_SANITIZE} -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=${DTRAIN_SANITIZE})
  if(DTRAIN_SANITIZE MATCHES thread)
    add_compile_options(-Wno-tsan)
  endif()
endif()
