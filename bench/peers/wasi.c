/* A program for WASI in wasmtime, with its usual settings. The program is a module, or what `keep` has made of one: `NAME.cwasm`.
 *
 *     wasi MODULE compile                 nanoseconds that compiling takes, on one core
 *     wasi MODULE keep FILE               compiles into a file: its bytes
 *     wasi PROGRAM load                   makes it ready to be run
 *     wasi PROGRAM run ARGUMENTS          runs it once, which prints
 *     wasi PROGRAM start COUNT ARGUMENTS  nanoseconds for each run in a fresh store and instance, of those that the engine keeps ready
 *     wasi PROGRAM hold COUNT ARGUMENTS   runs that many, keeps their memory, says `ready` and waits to be ended
 *
 * An interpreter of Monohull's has a custom section with its library, and asks for it: that is mapped from the file NAME.attachment, beside the compiled one.
 *
 * Declares what it uses of wasmtime's C interface itself: the library is fetched without headers. */

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct config config_t;
typedef struct pool pool_t;
typedef struct engine engine_t;
typedef struct linker linker_t;
typedef struct module module_t;
typedef struct store store_t;
typedef struct context context_t;
typedef struct caller caller_t;
typedef struct wasi wasi_t;
typedef struct error error_t;
typedef struct trap trap_t;
typedef struct valtype valtype_t;
typedef struct functype functype_t;
typedef struct { size_t size; uint8_t *data; } bytes_t;
typedef struct { size_t size; valtype_t **data; } valtypes_t;
typedef struct { uint64_t store; size_t index; } instance_t;
typedef struct { uint64_t store; void *index; } func_t;
/* As `func_t`; one type of the interface may be larger than the other, and neither than this. */
typedef struct { uint64_t room[8]; } memory_t;
/* A tagged union; its largest member is smaller than this. */
typedef struct { uint8_t kind; union { func_t func; memory_t memory; } of; } extern_t;
typedef struct { uint8_t kind; union { int32_t i32; uint64_t room[3]; } of; } __attribute__((aligned(8))) val_t;
typedef trap_t *(*callback_t)(void *, caller_t *, const val_t *, size_t, val_t *, size_t);

config_t *wasm_config_new(void);
void wasmtime_config_parallel_compilation_set(config_t *, bool);
pool_t *wasmtime_pooling_allocation_config_new(void);
void wasmtime_pooling_allocation_config_max_memory_size_set(pool_t *, size_t);
void wasmtime_pooling_allocation_strategy_set(config_t *, const pool_t *);
engine_t *wasm_engine_new_with_config(config_t *);
error_t *wasmtime_module_new(engine_t *, const uint8_t *, size_t, module_t **);
error_t *wasmtime_module_serialize(module_t *, bytes_t *);
error_t *wasmtime_module_deserialize_file(engine_t *, const char *, module_t **);
linker_t *wasmtime_linker_new(engine_t *);
error_t *wasmtime_linker_define_wasi(linker_t *);
error_t *wasmtime_linker_define_func(
    linker_t *, const char *, size_t, const char *, size_t, const functype_t *, callback_t, void *, void (*)(void *));
error_t *wasmtime_linker_define_unknown_imports_as_traps(linker_t *, module_t *);
error_t *wasmtime_linker_instantiate(const linker_t *, context_t *, const module_t *, instance_t *, trap_t **);
valtype_t *wasm_valtype_new(uint8_t);
void wasm_valtype_vec_new(valtypes_t *, size_t, valtype_t *const *);
functype_t *wasm_functype_new(valtypes_t *, valtypes_t *);
bool wasmtime_caller_export_get(caller_t *, const char *, size_t, extern_t *);
context_t *wasmtime_caller_context(caller_t *);
uint8_t *wasmtime_memory_data(const context_t *, const memory_t *);
size_t wasmtime_memory_data_size(const context_t *, const memory_t *);
wasi_t *wasi_config_new(void);
bool wasi_config_set_argv(wasi_t *, size_t, const char **);
bool wasi_config_set_stdout_file(wasi_t *, const char *);
void wasi_config_inherit_stdout(wasi_t *);
void wasi_config_inherit_stderr(wasi_t *);
error_t *wasmtime_context_set_wasi(context_t *, wasi_t *);
store_t *wasmtime_store_new(engine_t *, void *, void (*)(void *));
context_t *wasmtime_store_context(store_t *);
void wasmtime_store_delete(store_t *);
bool wasmtime_instance_export_get(context_t *, const instance_t *, const char *, size_t, extern_t *);
error_t *wasmtime_func_call(context_t *, const func_t *, const void *, size_t, void *, size_t, trap_t **);
void wasmtime_error_message(const error_t *, bytes_t *);
bool wasmtime_error_exit_status(const error_t *, int *);

/* Kinds of values and of exports. */
enum { I32 = 0, FUNC = 0, MEMORY = 3 };

static void need(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "wasmtime: %s failed\n", what);
        exit(1);
    }
}

static void no_error(error_t *error, const char *what) {
    if (error) {
        bytes_t message;
        wasmtime_error_message(error, &message);
        fprintf(stderr, "wasmtime: %s: %.*s\n", what, (int)message.size, (char *)message.data);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* -- Files ---------------------------------------------------------------------------------------------------------------- */

/* A whole file, mapped; nothing if there is none. */
static bytes_t mapped(const char *name) {
    struct stat stat;
    int file = open(name, O_RDONLY);
    if (file < 0 || fstat(file, &stat) != 0 || stat.st_size == 0)
        return (bytes_t){ 0 };
    void *data = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    need(data != MAP_FAILED, "mapping a file");
    close(file);
    return (bytes_t){ (size_t)stat.st_size, data };
}

static void written(const char *name, bytes_t bytes) {
    FILE *file = fopen(name, "wb");
    need(file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size && fclose(file) == 0, "writing a file");
}

static bool is_kept(const char *name) {
    size_t length = strlen(name);
    return length > 6 && strcmp(name + length - 6, ".cwasm") == 0;
}

/* The name of the file beside NAME.cwasm that has the attachment. */
static const char *beside(const char *kept) {
    static char name[4096];
    need(is_kept(kept) && strlen(kept) < sizeof name, "a name that ends in .cwasm");
    return sprintf(name, "%.*s.attachment", (int)strlen(kept) - 6, kept), name;
}

static size_t leb128(bytes_t module, size_t *at) {
    size_t value = 0;
    for (int shift = 0; *at < module.size && shift < 35; shift += 7) {
        uint8_t byte = module.data[(*at)++];
        value |= (size_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return value;
}

/* The contents of the custom section that is an attachment. */
static bytes_t attached(bytes_t module) {
    static const char name[] = "monohull.attachment";
    for (size_t at = 8; at < module.size;) {
        uint8_t kind = module.data[at++];
        size_t length = leb128(module, &at), end = at + length;
        need(end <= module.size, "reading the program's sections");
        if (kind == 0 && length > sizeof name) {
            size_t named = leb128(module, &at);
            if (named == sizeof name - 1 && memcmp(module.data + at, name, named) == 0)
                return (bytes_t){ end - at - named, module.data + at + named };
        }
        at = end;
    }
    return (bytes_t){ 0 };
}

/* -- What Monohull's interpreters import --------------------------------------------------------------------------------- */

static bytes_t attachment;

/* Bytes of the program's memory. */
static uint8_t *part(caller_t *caller, uint32_t at, uint32_t length) {
    extern_t memory;
    context_t *context = wasmtime_caller_context(caller);
    need(wasmtime_caller_export_get(caller, "memory", 6, &memory) && memory.kind == MEMORY, "the memory");
    size_t size = wasmtime_memory_data_size(context, &memory.of.memory);
    return at <= size && length <= size - at ? wasmtime_memory_data(context, &memory.of.memory) + at : NULL;
}

static void answer(val_t *result, int32_t number) {
    result->kind = I32;
    result->of.i32 = number;
}

static trap_t *attachment_length(void *none, caller_t *caller, const val_t *given, size_t count, val_t *results, size_t result_count) {
    answer(results, (int32_t)attachment.size);
    return NULL;
}

static trap_t *attachment_read(void *none, caller_t *caller, const val_t *given, size_t count, val_t *results, size_t result_count) {
    uint32_t offset = (uint32_t)given[0].of.i32, length = (uint32_t)given[2].of.i32;
    uint8_t *to = part(caller, (uint32_t)given[1].of.i32, length);
    bool is_there = to && offset <= attachment.size && length <= attachment.size - offset;
    if (is_there)
        memcpy(to, attachment.data + offset, length);
    answer(results, is_there ? 0 : 28);
    return NULL;
}

/* Half a MiB is what wasmtime gives a program by itself. */
static trap_t *stack_left(void *none, caller_t *caller, const val_t *given, size_t count, val_t *results, size_t result_count) {
    answer(results, 512 << 10);
    return NULL;
}

static trap_t *common_random(void *none, caller_t *caller, const val_t *given, size_t count, val_t *results, size_t result_count) {
    uint32_t length = (uint32_t)given[1].of.i32;
    uint8_t *to = part(caller, (uint32_t)given[0].of.i32, length);
    answer(results, to && getrandom(to, length, 0) == (ssize_t)length ? 0 : 28);
    return NULL;
}

static void define(linker_t *linker, const char *name, size_t parameters, callback_t callback) {
    valtype_t *types[3], *result = wasm_valtype_new(I32);
    for (size_t i = 0; i < parameters; i++)
        types[i] = wasm_valtype_new(I32);
    valtypes_t takes, gives;
    wasm_valtype_vec_new(&takes, parameters, types);
    wasm_valtype_vec_new(&gives, 1, &result);
    const functype_t *type = wasm_functype_new(&takes, &gives);
    no_error(wasmtime_linker_define_func(linker, "monohull", 8, name, strlen(name), type, callback, NULL, NULL), name);
}

static linker_t *linked(engine_t *engine, module_t *module) {
    linker_t *linker = wasmtime_linker_new(engine);
    no_error(wasmtime_linker_define_wasi(linker), "the functions of WASI");
    if (attachment.size) {
        define(linker, "attachment_length", 0, attachment_length);
        define(linker, "attachment_read", 3, attachment_read);
        define(linker, "stack_left", 0, stack_left);
        define(linker, "common_random", 2, common_random);
        /* What is not used by what is measured. */
        no_error(wasmtime_linker_define_unknown_imports_as_traps(linker, module), "other imports");
    }
    return linker;
}

/* -- Runs ---------------------------------------------------------------------------------------------------------------- */

/* Runs it, and gives the store that has its memory. */
static store_t *run(engine_t *engine, const linker_t *linker, const module_t *module, bool prints, size_t count, char **arguments) {
    store_t *store = wasmtime_store_new(engine, NULL, NULL);
    context_t *context = wasmtime_store_context(store);
    wasi_t *wasi = wasi_config_new();
    const char *all[16] = { "bench" };
    need(count < 16, "so many arguments");
    memcpy(all + 1, arguments, count * sizeof *all);
    need(wasi_config_set_argv(wasi, count + 1, all), "the arguments");
    if (prints)
        wasi_config_inherit_stdout(wasi);
    else
        need(wasi_config_set_stdout_file(wasi, "/dev/null"), "the output");
    wasi_config_inherit_stderr(wasi);
    no_error(wasmtime_context_set_wasi(context, wasi), "WASI");
    instance_t instance;
    extern_t start;
    trap_t *trap = NULL;
    no_error(wasmtime_linker_instantiate(linker, context, module, &instance, &trap), "an instance");
    need(!trap, "an instance");
    need(wasmtime_instance_export_get(context, &instance, "_start", 6, &start) && start.kind == FUNC, "the export");
    error_t *error = wasmtime_func_call(context, &start.of.func, NULL, 0, NULL, 0, &trap);
    int status;
    if (!error || !wasmtime_error_exit_status(error, &status) || status != 0)
        no_error(error, "the call");
    need(!trap, "the call");
    return store;
}

static module_t *ready(engine_t *engine, const char *program) {
    module_t *module;
    if (is_kept(program)) {
        attachment = mapped(beside(program));
        no_error(wasmtime_module_deserialize_file(engine, program, &module), "the compiled program");
        return module;
    }
    bytes_t bytes = mapped(program);
    need(bytes.size > 0, "reading the program");
    attachment = attached(bytes);
    no_error(wasmtime_module_new(engine, bytes.data, bytes.size, &module), "the module");
    return module;
}

int main(int count, char **arguments) {
    need(count > 2, "reading the arguments");
    const char *program = arguments[1], *mode = arguments[2];
    bool many = strcmp(mode, "start") == 0, holds = strcmp(mode, "hold") == 0;
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
    module_t *module = ready(engine, program);
    if (strcmp(mode, "compile") == 0 || strcmp(mode, "load") == 0) {
        printf("%f\n", now() - start);
        return 0;
    }
    if (strcmp(mode, "keep") == 0 && count == 4) {
        bytes_t kept;
        no_error(wasmtime_module_serialize(module, &kept), "the compiled program");
        written(beside(arguments[3]), attachment);
        written(arguments[3], kept);
        printf("%zu\n", kept.size);
        return 0;
    }
    linker_t *linker = linked(engine, module);
    if (!many && !holds) {
        need(strcmp(mode, "run") == 0, "reading what to do");
        wasmtime_store_delete(run(engine, linker, module, true, (size_t)count - 3, arguments + 3));
        return 0;
    }
    long times = count > 4 ? atol(arguments[3]) : 0;
    need(times > 0, "reading how many");
    size_t given = (size_t)count - 4;
    if (holds) {
        for (long time = 0; time < times; time++)
            run(engine, linker, module, false, given, arguments + 4);
        puts("ready");
        fflush(stdout);
        pause();
        return 0;
    }
    wasmtime_store_delete(run(engine, linker, module, false, given, arguments + 4));
    start = now();
    for (long time = 0; time < times; time++)
        wasmtime_store_delete(run(engine, linker, module, false, given, arguments + 4));
    printf("%f\n", (now() - start) / times);
}
