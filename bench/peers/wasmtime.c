/* A no-op function of WebAssembly, each call in a fresh store and instance, from wasmtime's pool: as a server that keeps
 * requests apart would run it. Prints nanoseconds per call.
 *
 * Declares what it uses of wasmtime's C interface itself: the library is fetched without headers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct config config_t;
typedef struct pool pool_t;
typedef struct engine engine_t;
typedef struct module module_t;
typedef struct store store_t;
typedef struct context context_t;
typedef struct error error_t;
typedef struct trap trap_t;
typedef struct { uint64_t store; size_t index; } instance_t;
typedef struct { uint64_t store; void *index; } func_t;
/* A tagged union; its largest member is smaller than this. */
typedef struct { uint8_t kind; union { func_t func; uint64_t room[8]; } of; } extern_t;

config_t *wasm_config_new(void);
pool_t *wasmtime_pooling_allocation_config_new(void);
void wasmtime_pooling_allocation_strategy_set(config_t *, const pool_t *);
engine_t *wasm_engine_new_with_config(config_t *);
error_t *wasmtime_module_new(engine_t *, const uint8_t *, size_t, module_t **);
store_t *wasmtime_store_new(engine_t *, void *, void (*)(void *));
context_t *wasmtime_store_context(store_t *);
void wasmtime_store_delete(store_t *);
error_t *wasmtime_instance_new(context_t *, const module_t *, const extern_t *, size_t, instance_t *, trap_t **);
bool wasmtime_instance_export_get(context_t *, const instance_t *, const char *, size_t, extern_t *);
error_t *wasmtime_func_call(context_t *, const func_t *, const void *, size_t, void *, size_t, trap_t **);

/* (module (memory 1) (func (export "f"))) */
static const uint8_t MODULE[] = {
    0x00, 'a',  's',  'm',  0x01, 0x00, 0x00, 0x00, /* magic, version */
    0x01, 0x04, 0x01, 0x60, 0x00, 0x00,             /* types: () -> () */
    0x03, 0x02, 0x01, 0x00,                         /* functions: one, of type 0 */
    0x05, 0x03, 0x01, 0x00, 0x01,                   /* memories: one, of one page */
    0x07, 0x05, 0x01, 0x01, 'f',  0x00, 0x00,       /* exports: function 0 as f */
    0x0a, 0x04, 0x01, 0x02, 0x00, 0x0b,             /* code: nothing */
};

static void need(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "wasmtime: %s failed\n", what);
        exit(1);
    }
}

static void call_once(engine_t *engine, const module_t *module) {
    store_t *store = wasmtime_store_new(engine, NULL, NULL);
    context_t *context = wasmtime_store_context(store);
    instance_t instance;
    extern_t function;
    trap_t *trap = NULL;
    need(!wasmtime_instance_new(context, module, NULL, 0, &instance, &trap) && !trap, "an instance");
    need(wasmtime_instance_export_get(context, &instance, "f", 1, &function) && function.kind == 0, "the export");
    need(!wasmtime_func_call(context, &function.of.func, NULL, 0, NULL, 0, &trap) && !trap, "the call");
    wasmtime_store_delete(store);
}

int main(int count, char **arguments) {
    long calls = count > 1 ? atol(arguments[1]) : 0;
    need(calls > 0, "reading how many calls");
    config_t *config = wasm_config_new();
    wasmtime_pooling_allocation_strategy_set(config, wasmtime_pooling_allocation_config_new());
    engine_t *engine = wasm_engine_new_with_config(config);
    need(engine != NULL, "the engine");
    module_t *module;
    need(!wasmtime_module_new(engine, MODULE, sizeof MODULE, &module), "the module");
    call_once(engine, module);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long call = 0; call < calls; call++) call_once(engine, module);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double spent = (end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec);
    printf("%f\n", spent / calls);
}
