# A toolchain file of CMake: what a project builds as a program becomes a function image.
#
#     cmake -B build -DCMAKE_TOOLCHAIN_FILE=…/libc/monohull.cmake && cmake --build build
#
# The program `monohull` is the one beside this folder, beside its folder in `bin`, or the one on the PATH; MONOHULL names another.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

find_program(MONOHULL monohull
    HINTS "${CMAKE_CURRENT_LIST_DIR}/.." "${CMAKE_CURRENT_LIST_DIR}/../bin" "${CMAKE_CURRENT_LIST_DIR}/../release"
    NO_CMAKE_FIND_ROOT_PATH REQUIRED)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MONOHULL)
set(CMAKE_C_COMPILER "${MONOHULL}" cc)
set(CMAKE_CXX_COMPILER "${MONOHULL}" c++)

# Libraries of a project are linked into its programs: an image loads none. The host's libraries are for the host's libc.
set(BUILD_SHARED_LIBS OFF CACHE BOOL "A function loads no libraries" FORCE)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_FIND_ROOT_PATH "${CMAKE_CURRENT_LIST_DIR}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
