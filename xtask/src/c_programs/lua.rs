//! Lua's interpreter, with the flags of its own makefile.

use super::{Files, Program};
use crate::sdist::Sdist;
use crate::source::Source;
use crate::{Result, apt};
use std::path::Path;

/// Lua's tests are not in Debian's source of it. This package has a copy of Lua's own repository.
const TESTS: Sdist =
    Sdist { name: "lupa", version: "2.8", sha256: "d8022641b9ec8ecf2c5ecbe9f47e5a70e0b87c4b5ae921b92cb02a638e0acd08" };

pub(super) const LUA: Program = Program {
    name: "lua",
    source: &Source {
        name: "lua",
        version: "5.4.8",
        addresses: [
            "http://deb.debian.org/debian/pool/main/l/lua5.4/lua5.4_5.4.8.orig.tar.gz",
            "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/l/lua5.4/lua5.4_5.4.8.orig.tar.gz",
        ],
        sha256: "4f18ddae154e793e46eeab727c59ef1c0c0c2b744e7b94219710d76f530629ae",
    },
    besides: &[],
    before: &[],
    // The compiler is a program of its own.
    files: Files::Of(&["src"], &["luac.c"]),
    flags: &["-O2", "-Wall", "-Wextra", "-DLUA_COMPAT_5_3", "-DLUA_USE_POSIX"],
};

/// For WASI: without `LUA_USE_POSIX`, which stands for processes and signals too, and with our definitions of what Lua leaves to a system.
pub(super) const LUA_WASI: Program =
    Program { flags: &["-O2", "-w", "-DLUA_COMPAT_5_3", "-include", "lua_wasi.h"], ..LUA };

/// Unpacks its own tests into a folder that has nothing else.
pub(crate) fn unpack_lua_tests(to: &Path) -> Result {
    apt::remove(to)?;
    TESTS.unpack("third-party/lua54/testes", to)
}
