# The CUDA Toolkit, when present: nvcc compiles the examples' kernels, ptxas assembles variants, and
# cuda.h types the driver's entry points (the driver itself is loaded at run time).
# FindCUDAToolkit of CMake 3.25.1, which Debian 12 has, ends with an error where CUDA 13 has no nvToolsExt any more; but
# not in projects that ask for an older CMake.
set(requiredCMake "${CMAKE_MINIMUM_REQUIRED_VERSION}")
set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
find_package(CUDAToolkit QUIET)
set(CMAKE_MINIMUM_REQUIRED_VERSION "${requiredCMake}")
if(CUDAToolkit_FOUND)
  set(TALLY_HAVE_CUDA ON)
  find_program(TALLY_PTXAS ptxas HINTS "${CUDAToolkit_BIN_DIR}" NO_DEFAULT_PATH)
  find_program(TALLY_NVCC nvcc HINTS "${CUDAToolkit_BIN_DIR}" NO_DEFAULT_PATH)
  message(STATUS "CUDA Toolkit ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR}")
else()
  set(TALLY_HAVE_CUDA OFF)
  message(STATUS "No CUDA Toolkit: building without assembling and without the CUDA device")
endif()
