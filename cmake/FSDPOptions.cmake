# Flags for the parts that are ours alone: the runtime, its tools and tests.
# (The compiler's libraries take theirs from LLVM: FSDPFindMLIR.cmake.)
add_library(fsdp_options INTERFACE)
target_compile_options(fsdp_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
if(FSDP_WERROR)
  target_compile_options(fsdp_options INTERFACE -Werror)
endif()
if(FSDP_SANITIZE)
  target_compile_options(fsdp_options INTERFACE -fsanitize=${FSDP_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(fsdp_options INTERFACE -fsanitize=${FSDP_SANITIZE})
endif()
# Clang's source-based coverage: tools/coverage.
if(FSDP_COVERAGE)
  target_compile_options(fsdp_options INTERFACE
                         -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(fsdp_options INTERFACE -fprofile-instr-generate)
endif()

# ccache, where it is there. It needs telling that precompiled headers may be
# compared by content, which then must not hold the time.
set(FSDP_NO_PCH_TIMESTAMP
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
find_program(FSDP_CCACHE ccache)
foreach(lang C CXX)
  set(launcher "${CMAKE_${lang}_COMPILER_LAUNCHER}")
  if((NOT DEFINED CMAKE_${lang}_COMPILER_LAUNCHER AND FSDP_CCACHE)
     OR launcher MATCHES "(^|/)ccache$")
    if(NOT launcher)
      set(launcher ${FSDP_CCACHE})
    endif()
    set(CMAKE_${lang}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${launcher})
  endif()
endforeach()
