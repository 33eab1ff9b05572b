# SPDX-License-Identifier: Apache-2.0
# CUDA is optional. MANTA_CUDA says what is wanted: AUTO (where nvcc is found), ON (an error where it is not), OFF.
# MANTA_HAS_CUDA is what came of it: whether .cu files are compiled, into a plugin that is opened at run time.
set(MANTA_CUDA AUTO CACHE STRING "the CUDA plugin: AUTO, ON or OFF")
set_property(CACHE MANTA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MANTA_HAS_CUDA OFF)
if(NOT MANTA_CUDA STREQUAL "OFF")
  # nvcc is often not in the PATH; CMake looks there and at CUDACXX alone.
  find_program(MANTA_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(MANTA_NVCC AND NOT DEFINED CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${MANTA_NVCC})
  endif()
  if(MANTA_NVCC)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90) # machine code for sm_90, and PTX for what comes after it
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(MANTA_HAS_CUDA ON)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
    set(CMAKE_CUDA_FLAGS_DEBUG "-O1 -g")
  elseif(MANTA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MANTA_CUDA is ON, but there is no nvcc: set CUDACXX to it, or MANTA_CUDA to OFF")
  endif()
endif()
message(STATUS "CUDA: ${MANTA_HAS_CUDA}")
