# What `cmake --install` writes: a tree that may be moved. Runtime and compiler
# are two parts of the package FSDP, so that a program which only runs compiled
# steps needs no MLIR.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/FSDP)

# Gives targets their place in the package: `name` for FSDP::name.
function(fsdp_export target name set)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT FSDP${set}Targets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()

if(FSDP_BUILD_RUNTIME)
  fsdp_export(fsdp-rt Runtime Runtime)
  fsdp_export(fsdp-rt-static RuntimeStatic Runtime)
  fsdp_export(fsdp-run fsdp-run Runtime)
  # For fsdp-compile, which links executables with it.
  install(TARGETS fsdp-rt-entry ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fsdp-rt
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  file(RELATIVE_PATH FSDP_PREFIX_FROM_PKGCONFIG
    /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/fsdp-rt.pc.in
    ${PROJECT_BINARY_DIR}/cmake/fsdp-rt.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/fsdp-rt.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(FSDP_BUILD_COMPILER)
  foreach(library Support Dialect ABI Cost Schedule Arena Planning
          AnalysisContract AnalysisCode AnalysisStep AnalysisKernels AnalysisAttention
          Analysis Passes Tool Target PlanReport Driver Plan)
    fsdp_export(FSDP${library} ${library} Compiler)
  endforeach()
  foreach(tool fsdp-compile fsdp-lsp-server fsdp-opt fsdp-plan fsdp-reduce)
    if(TARGET ${tool})
      fsdp_export(${tool} ${tool} Compiler)
    endif()
  endforeach()
  install(TARGETS FSDPPlugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fsdp
                    ${PROJECT_SOURCE_DIR}/tools/lib/include/fsdp
                    ${PROJECT_BINARY_DIR}/include/fsdp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*.td" PATTERN "*.h.inc"
                   PATTERN CMakeFiles EXCLUDE)
endif()

foreach(set Runtime Compiler)
  string(TOUPPER ${set} upper)
  if(FSDP_BUILD_${upper})
    install(EXPORT FSDP${set}Targets NAMESPACE FSDP::
      DESTINATION ${package_dir})
  endif()
endforeach()
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/FSDPConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/FSDPConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/cmake/FSDPConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/FSDPConfig.cmake
              ${PROJECT_BINARY_DIR}/cmake/FSDPConfigVersion.cmake
  DESTINATION ${package_dir})
