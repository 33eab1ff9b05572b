# SPDX-License-Identifier: Apache-2.0
# CUDA is optional: MANTA_CUDA says whether .cu files are compiled in this build.
include(CheckLanguage)
option(MANTA_WITH_CUDA "compile the CUDA plugin where nvcc exists" ON)
set(MANTA_CUDA OFF)
if(MANTA_WITH_CUDA)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES 90)
    enable_language(CUDA)
    set(MANTA_CUDA ON)
  endif()
endif()
