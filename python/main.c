/* How CPython starts as a function, and as a WebAssembly program that is one.
 *
 * The library is bytecode that `freeze.py` has made, so no file is looked for. `monohull build app.py` adds the program, and the interpreter runs that.
 * Without a program it takes its own arguments: `-c`, `-m`, a script's file, `-`.
 */
#include "start.h"
#include <string.h>

/* What `freeze.py` has made of the library, and modules in C that are linked and belong to no part of CPython. */
extern const struct _frozen monohull_library[];
extern struct _inittab monohull_modules[];
PyMODINIT_FUNC PyInit__monohull(void);

static PyStatus configure(PyConfig *config, int argc, char **argv, int has_program) {
    config->parse_argv = !has_program;
    config->site_import = 0;
    config->write_bytecode = 0;
    config->pathconfig_warnings = 0;
    config->use_frozen_modules = 1;
    config->install_signal_handlers = 0;
    /* The libc answers for descriptors that cannot be closed under it. */
    config->configure_c_stdio = 0;
    config->module_search_paths_set = 1;
    PyStatus status = PyConfig_SetBytesArgv(config, argc, argv);
    /* There is no installation: with a place for it, none is searched for. */
    if (!PyStatus_Exception(status)) status = PyConfig_SetString(config, &config->home, L"/python");
    if (!PyStatus_Exception(status)) status = PyConfig_SetString(config, &config->program_name, L"/python/bin/python");
    const char *path = getenv("PYTHONPATH");
    while (path && *path && !PyStatus_Exception(status)) {
        size_t length = strcspn(path, ":");
        char *one = strndup(path, length);
        wchar_t *wide = one ? Py_DecodeLocale(one, NULL) : NULL;
        if (wide == NULL) return PyStatus_NoMemory();
        if (length) status = PyWideStringList_Append(&config->module_search_paths, wide);
        PyMem_RawFree(wide);
        free(one);
        path += length + (path[length] == ':');
    }
    return status;
}

/* Prepares the module `__main__` and runs the program in it, as its own first frame. */
static int run_program(PyObject *start) {
    PyObject *code = PyObject_CallMethod(start, "main", NULL);
    PyObject *module = PyImport_AddModuleRef("__main__");
    PyObject *done = NULL;
    if (code && module) {
        PyObject *names = PyModule_GetDict(module);
        done = PyEval_EvalCode(code, names, names);
    }
    int failed = done == NULL;
    /* `sys.exit` ends here, with its status. */
    if (failed) PyErr_Print();
    Py_XDECREF(done);
    Py_XDECREF(module);
    Py_XDECREF(code);
    return failed;
}

int main(int argc, char **argv) {
    int has_program = program_length() != 0;
    monohull_c_recursion_limit = recursion_levels();
    PyPreConfig before;
    PyPreConfig_InitPythonConfig(&before);
    before.utf8_mode = 1;
    before.parse_argv = !has_program;
    PyStatus status = has_program ? Py_PreInitialize(&before) : Py_PreInitializeFromBytesArgs(&before, argc, argv);
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);

    PyImport_FrozenModules = monohull_library;
    if (PyImport_AppendInittab("_monohull", PyInit__monohull) < 0) return 1;
    if (PyImport_ExtendInittab(monohull_modules) < 0) return 1;
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    status = configure(&config, argc, argv, has_program);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_IsExit(status)) return status.exitcode;
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);

    PyObject *start = PyImport_ImportModule("_monohull_start");
    if (start == NULL) {
        PyErr_Print();
        return 1;
    }
    if (!has_program) {
        Py_DECREF(start);
        return Py_RunMain();
    }
    int failed = run_program(start);
    Py_DECREF(start);
    /* What was printed and cannot be written is a failure, as for `python`. */
    if (Py_FinalizeEx() < 0) return 120;
    return failed;
}
