//! Lua's interpreter, with the flags of its own makefile.

use super::{Files, Program};
use crate::source::Source;

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
