# cmake --install: headers, library, command, and the package that find_package(precast) finds.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/precast)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/precast TYPE INCLUDE
        FILES_MATCHING PATTERN "*.h")
install(TARGETS precast EXPORT precast_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS precast_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT precast_targets NAMESPACE precast:: FILE precast-targets.cmake
        DESTINATION ${package_dir})

configure_package_config_file(cmake/precast-config.cmake.in precast-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0, a minor version may change the API.
write_basic_package_version_file(precast-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/precast-config.cmake
              ${PROJECT_BINARY_DIR}/precast-config-version.cmake
              cmake/precast_add_program.cmake
        DESTINATION ${package_dir})
