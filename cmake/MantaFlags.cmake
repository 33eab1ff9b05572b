# SPDX-License-Identifier: Apache-2.0
# One place for the language standard, warnings, hardening and sanitizers.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Assertions stay on in every build: ours are MT_ASSERT, but NDEBUG must not leak in through a library's header.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3 -DMT_DEBUG") # core/base/debug.h

option(MANTA_WERROR "warnings are errors; off for a compiler that the project does not know" ON)
set(MANTA_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")
if(MANTA_SANITIZE) # what the instrumentation makes of the code misleads warnings that look at how values flow
  set(MANTA_WERROR OFF)
endif()
if(MANTA_SANITIZE STREQUAL "thread") # not for the debugger: some optimization makes it a third faster
  set(CMAKE_C_FLAGS_DEBUG "-O1 -g1 -DMT_DEBUG")
endif()

add_compile_definitions(_GNU_SOURCE)
add_compile_options(
  $<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra> $<$<AND:$<BOOL:${MANTA_WERROR}>,$<COMPILE_LANGUAGE:C>>:-Werror>
  $<$<COMPILE_LANGUAGE:C>:-Wshadow> $<$<COMPILE_LANGUAGE:C>:-Wconversion>
  $<$<COMPILE_LANGUAGE:C>:-Wno-sign-conversion> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wvla>
  $<$<COMPILE_LANGUAGE:C>:-Wformat=2> $<$<COMPILE_LANGUAGE:C>:-Wno-format-zero-length>
  $<$<COMPILE_LANGUAGE:C>:-fno-strict-aliasing> $<$<COMPILE_LANGUAGE:C>:-fno-common>
  $<$<COMPILE_LANGUAGE:C>:-fstack-protector-strong> $<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer>
  $<$<COMPILE_LANGUAGE:C>:-fstack-clash-protection> $<$<COMPILE_LANGUAGE:C>:-fcf-protection>)
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:--as-needed)
if(MANTA_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(MANTA_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread $<$<C_COMPILER_ID:GNU>:-Wno-tsan>) # it knows no fences: docs/design/sanitizers.md
  add_link_options(-fsanitize=thread)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-U_FORTIFY_SOURCE> $<$<COMPILE_LANGUAGE:C>:-D_FORTIFY_SOURCE=2>)
endif()
if(NOT MANTA_SANITIZE)
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
endif()
include_directories(${CMAKE_SOURCE_DIR})

# Programs lie in build/<preset>/bin and shared libraries in build/<preset>/lib, as they will when installed; tests lie in
# a mirror of the tree (tests/CMakeLists.txt).
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
