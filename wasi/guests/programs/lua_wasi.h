/* What Lua lets a system define, for WebAssembly: how an error ends calls (ldo.c), names of temporary files (loslib.c), whether its input is a
 * terminal (lua.c). Included before each of its files. */
#ifndef LUA_WASI_H
#define LUA_WASI_H

#include "monohull-wasi.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lua_State;

/* A call that an error may end: what `luaD_rawrunprotected` has in its variables `f`, `L` and `ud`. */
struct lua_wasi_call {
    void (*function)(struct lua_State *, void *);
    struct lua_State *state;
    void *argument;
};

static inline void lua_wasi_call(void *argument) {
    struct lua_wasi_call *call = argument;
    call->function(call->state, call->argument);
}

#define luai_jmpbuf int
#define LUAI_THROW(L, c) monohull_escape()
#define LUAI_TRY(L, c, a) \
    { \
        struct lua_wasi_call call = {f, L, ud}; \
        monohull_protect(lua_wasi_call, &call); \
    }

#define LUA_TMPNAMBUFSIZE 32
#define lua_tmpnam(name, failed) \
    { \
        strcpy(name, "/tmp/lua_XXXXXX"); \
        failed = mkstemp(name); \
        if (failed != -1) close(failed); \
        failed = failed == -1; \
    }

#define lua_stdin_is_tty() isatty(0)

#endif
