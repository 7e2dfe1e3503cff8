# GoogleTest, and how its programs are compiled and run.
find_package(GTest REQUIRED)
include(GoogleTest)

# fsdp_discover_tests(TARGET [PREFIX P] [TIMEOUT SECONDS]): one CTest test per
# GoogleTest case. Sanitized ones take longer to start than to run: there four
# for the whole program, each with a quarter of the cases.
function(fsdp_discover_tests target)
  cmake_parse_arguments(arg "" "PREFIX;TIMEOUT" "" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(FSDP_SANITIZE)
    foreach(shard 0 1 2 3)
      set(name ${arg_PREFIX}${target}-${shard})
      add_test(NAME ${name} COMMAND ${target} --gtest_brief=1)
      set_tests_properties(${name} PROPERTIES TIMEOUT 1200
        ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard}")
    endforeach()
  else()
    gtest_discover_tests(${target} TEST_PREFIX "${arg_PREFIX}"
      DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()

# Tests that compile for longer than they run compile twice as fast so. (Under
# ThreadSanitizer every access counts.)
set(FSDP_TEST_OPTIONS "")
if(NOT FSDP_SANITIZE STREQUAL "thread")
  set(FSDP_TEST_OPTIONS "$<$<COMPILE_LANG_AND_ID:CXX,Clang,GNU>:-O0>")
endif()
