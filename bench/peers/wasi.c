/* A program for WASI in wasmtime, with its usual settings: `wasi MODULE run ARGUMENT` runs it once, which prints; `wasi MODULE start COUNT
 * ARGUMENT` prints nanoseconds for each run in a fresh store and instance, of those that the engine keeps ready; `wasi MODULE compile` those
 * that compiling takes, on one core.
 *
 * Declares what it uses of wasmtime's C interface itself: the library is fetched without headers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct config config_t;
typedef struct pool pool_t;
typedef struct engine engine_t;
typedef struct linker linker_t;
typedef struct module module_t;
typedef struct store store_t;
typedef struct context context_t;
typedef struct wasi wasi_t;
typedef struct error error_t;
typedef struct trap trap_t;
typedef struct { uint64_t store; size_t index; } instance_t;
typedef struct { uint64_t store; void *index; } func_t;
/* A tagged union; its largest member is smaller than this. */
typedef struct { uint8_t kind; union { func_t func; uint64_t room[8]; } of; } extern_t;

config_t *wasm_config_new(void);
void wasmtime_config_parallel_compilation_set(config_t *, bool);
pool_t *wasmtime_pooling_allocation_config_new(void);
void wasmtime_pooling_allocation_config_max_memory_size_set(pool_t *, size_t);
void wasmtime_pooling_allocation_strategy_set(config_t *, const pool_t *);
engine_t *wasm_engine_new_with_config(config_t *);
error_t *wasmtime_module_new(engine_t *, const uint8_t *, size_t, module_t **);
linker_t *wasmtime_linker_new(engine_t *);
error_t *wasmtime_linker_define_wasi(linker_t *);
error_t *wasmtime_linker_instantiate(const linker_t *, context_t *, const module_t *, instance_t *, trap_t **);
wasi_t *wasi_config_new(void);
bool wasi_config_set_argv(wasi_t *, size_t, const char **);
void wasi_config_inherit_stdout(wasi_t *);
void wasi_config_inherit_stderr(wasi_t *);
error_t *wasmtime_context_set_wasi(context_t *, wasi_t *);
store_t *wasmtime_store_new(engine_t *, void *, void (*)(void *));
context_t *wasmtime_store_context(store_t *);
void wasmtime_store_delete(store_t *);
bool wasmtime_instance_export_get(context_t *, const instance_t *, const char *, size_t, extern_t *);
error_t *wasmtime_func_call(context_t *, const func_t *, const void *, size_t, void *, size_t, trap_t **);

static void need(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "wasmtime: %s failed\n", what);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void run(engine_t *engine, const linker_t *linker, const module_t *module, const char *argument) {
    store_t *store = wasmtime_store_new(engine, NULL, NULL);
    context_t *context = wasmtime_store_context(store);
    wasi_t *wasi = wasi_config_new();
    const char *arguments[] = { "bench", argument };
    need(wasi_config_set_argv(wasi, 2, arguments), "the arguments");
    wasi_config_inherit_stdout(wasi);
    wasi_config_inherit_stderr(wasi);
    need(!wasmtime_context_set_wasi(context, wasi), "WASI");
    instance_t instance;
    extern_t start;
    trap_t *trap = NULL;
    need(!wasmtime_linker_instantiate(linker, context, module, &instance, &trap) && !trap, "an instance");
    need(wasmtime_instance_export_get(context, &instance, "_start", 6, &start) && start.kind == 0, "the export");
    need(!wasmtime_func_call(context, &start.of.func, NULL, 0, NULL, 0, &trap) && !trap, "the call");
    wasmtime_store_delete(store);
}

int main(int count, char **arguments) {
    need(count > 2, "reading the arguments");
    FILE *file = fopen(arguments[1], "rb");
    need(file != NULL, "opening the program");
    static uint8_t bytes[16 << 20];
    size_t length = fread(bytes, 1, sizeof bytes, file);
    need(length > 0 && length < sizeof bytes, "reading the program");
    bool many = strcmp(arguments[2], "start") == 0;
    config_t *config = wasm_config_new();
    wasmtime_config_parallel_compilation_set(config, false);
    if (many) {
        pool_t *pool = wasmtime_pooling_allocation_config_new();
        wasmtime_pooling_allocation_config_max_memory_size_set(pool, 64 << 20);
        wasmtime_pooling_allocation_strategy_set(config, pool);
    }
    engine_t *engine = wasm_engine_new_with_config(config);
    need(engine != NULL, "the engine");
    double start = now();
    module_t *module;
    need(!wasmtime_module_new(engine, bytes, length, &module), "the module");
    if (strcmp(arguments[2], "compile") == 0) {
        printf("%f\n", now() - start);
        return 0;
    }
    linker_t *linker = wasmtime_linker_new(engine);
    need(!wasmtime_linker_define_wasi(linker), "the functions of WASI");
    if (!many) {
        need(count == 4, "reading what to run");
        run(engine, linker, module, arguments[3]);
        return 0;
    }
    long times = count == 5 ? atol(arguments[3]) : 0;
    need(times > 0, "reading how many");
    run(engine, linker, module, arguments[4]);
    start = now();
    for (long time = 0; time < times; time++)
        run(engine, linker, module, arguments[4]);
    printf("%f\n", (now() - start) / times);
}
