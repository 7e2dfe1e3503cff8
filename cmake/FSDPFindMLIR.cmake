# Debian's MLIR 22.1, used as one shared library (libMLIR.so).
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
message(STATUS "Using MLIR ${LLVM_PACKAGE_VERSION} from ${MLIR_DIR}")

set(MLIR_LINK_MLIR_DYLIB ON)            # Debian's config leaves it unset: static archives would be linked
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR}) # unset, mlir-doc writes to the root of the file system
set(LLVM_EXTERNAL_LIT ${LLVM_TOOLS_BINARY_DIR}/lit CACHE FILEPATH "lit" FORCE)
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)

separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${LLVM_DEFINITIONS_LIST})
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
if(FSDP_WERROR)
  add_compile_options(-Werror)
endif()
# MLIR may lie where the loader does not look; installed tools find it, too.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# One precompiled header for the compiler: nine tenths of the time that a file
# takes are upstream headers. -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON does without.
add_library(fsdp-precompiled OBJECT
  ${PROJECT_SOURCE_DIR}/cmake/FSDPPrecompiled.cpp)
llvm_update_compile_flags(fsdp-precompiled)
target_precompile_headers(fsdp-precompiled PRIVATE
  ${PROJECT_SOURCE_DIR}/cmake/FSDPPrecompiled.h)
target_compile_options(fsdp-precompiled PRIVATE ${FSDP_NO_PCH_TIMESTAMP})

function(fsdp_precompile_headers target)
  if(TARGET obj.${target})
    set(target obj.${target})
  endif()
  # The header is for libraries (-fPIC): an executable's -fPIE would not fit.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  target_compile_options(${target} PRIVATE ${FSDP_NO_PCH_TIMESTAMP})
  target_precompile_headers(${target} REUSE_FROM fsdp-precompiled)
endfunction()
