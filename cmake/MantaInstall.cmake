# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: shared libraries with their public headers, pkg-config files, the CMake package
# `Manta`, and programs.
#
# manta_public_library(NAME MODULES module... HEADERS file... [SOURCES file...] [VERSION_SCRIPT file]
#                      [REQUIRES library...] [LINK library...] [DESCRIPTION text])
#   Makes lib<NAME>.so.0 of the objects of MODULES (and of all that they use), exporting what VERSION_SCRIPT lists
#   (default: cmake/manta.map, everything that begins with manta_). REQUIRES names public libraries made before;
#   LINK names what the library itself needs at run time and its users don't see. NAME is that of the library:
#   manta, manta_client, manta_sgd, manta_sweep. In this tree link with the target manta::NAME; outside of it with
#   Manta::NAME or pkg-config NAME.
#
# manta_install_program(TARGET...)   installs programs made by add_executable into bin/.
include(CMakePackageConfigHelpers)

set(MANTA_SOVERSION 0)
set(MANTA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Manta)

function(manta_public_library name)
  cmake_parse_arguments(L "" "VERSION_SCRIPT;DESCRIPTION" "MODULES;SOURCES;HEADERS;REQUIRES;LINK" ${ARGN})
  if(NOT L_VERSION_SCRIPT)
    set(L_VERSION_SCRIPT ${CMAKE_SOURCE_DIR}/cmake/manta.map)
  endif()
  set(target ${name}_shared)
  add_library(${target} SHARED ${L_SOURCES})
  add_library(manta::${name} ALIAS ${target})
  manta_link(${target} ${L_MODULES})
  list(TRANSFORM L_REQUIRES PREPEND manta:: OUTPUT_VARIABLE required)
  target_link_libraries(${target} PUBLIC ${required} PRIVATE ${L_LINK})
  # No unresolved symbol may wait for a user's program to find it (the sanitizers' own do, on purpose).
  if(NOT MANTA_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
  target_link_options(${target} PRIVATE LINKER:--version-script=${L_VERSION_SCRIPT})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${name} SOVERSION ${MANTA_SOVERSION}
    VERSION ${MANTA_SOVERSION}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} LINK_DEPENDS ${L_VERSION_SCRIPT}
    INSTALL_RPATH "$ORIGIN")
  # Users write <manta.h>, in this tree too.
  set(folders "")
  foreach(header ${L_HEADERS})
    get_filename_component(folder ${header} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
    get_filename_component(folder ${folder} DIRECTORY)
    list(APPEND folders $<BUILD_INTERFACE:${folder}>)
  endforeach()
  list(REMOVE_DUPLICATES folders)
  target_include_directories(${target} PUBLIC ${folders} $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${target} EXPORT MantaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${L_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  manta_install_pkgconfig(${name} "${L_DESCRIPTION}" "${L_REQUIRES}")
  set_property(GLOBAL APPEND PROPERTY MANTA_PUBLIC_LIBRARIES ${name})
endfunction()

# The .pc file finds its prefix from its own place, so that a tree moved or installed with --prefix works. What is linked by it
# has a run path to the library's folder: elsewhere than in /usr the loader would not find it, in /usr/local not before
# somebody ran ldconfig. The prefix is known when it is installed, so the file is written then.
function(manta_install_pkgconfig name description requires)
  file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
  set(PC_NAME ${name})
  set(PC_DESCRIPTION "${description}")
  string(JOIN " " PC_REQUIRES ${requires})
  set(PC_RUN_PATH "@PC_RUN_PATH@")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/library.pc.in ${CMAKE_BINARY_DIR}/pkgconfig/${name}.pc.in @ONLY)
  install(CODE "
    set(PC_RUN_PATH \" -Wl,-rpath,\\\${libdir}\")
    if(CMAKE_INSTALL_PREFIX MATCHES \"^/(usr)?/?$\")
      set(PC_RUN_PATH \"\")
    endif()
    set(file \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig/${name}.pc\")
    message(STATUS \"Installing: \$ENV{DESTDIR}\${file}\")
    configure_file(\"${CMAKE_BINARY_DIR}/pkgconfig/${name}.pc.in\" \"\$ENV{DESTDIR}\${file}\" @ONLY
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${file}\")")
endfunction()

function(manta_install_program)
  foreach(target ${ARGN})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endforeach()
  install(TARGETS ${ARGN} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# Called once, at the end of the top CMakeLists.txt: writes the CMake package, if there is a library to put into it.
function(manta_install_package)
  get_property(libraries GLOBAL PROPERTY MANTA_PUBLIC_LIBRARIES)
  if(NOT libraries)
    return()
  endif()
  configure_package_config_file(cmake/MantaConfig.cmake.in ${CMAKE_BINARY_DIR}/MantaConfig.cmake
    INSTALL_DESTINATION ${MANTA_PACKAGE_DIR})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/MantaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/MantaConfig.cmake ${CMAKE_BINARY_DIR}/MantaConfigVersion.cmake
    DESTINATION ${MANTA_PACKAGE_DIR})
  install(EXPORT MantaTargets NAMESPACE Manta:: DESTINATION ${MANTA_PACKAGE_DIR})
endfunction()
