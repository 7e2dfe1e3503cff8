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
