/* The program inside the unpacked tree: an interpreter that knows one program, and nothing of the host's Python.
 *
 * Started by unpack.c, by launcher Pods and as a node's helper processes. PyInstaller collects the tree; its own
 * starter is not used: it sets LD_LIBRARY_PATH, which libvirt would hand on to QEMU, starts itself a second time for
 * that, and keeps modules in an archive of its own. This one finds its libraries by its run path and its modules as
 * plain files beside it, so that nothing has to be taken back from the environment.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Told by unpack.c: the file that the user started. Not for children. */
#define FILE_VARIABLE "_KVEDGE_FILE"

static PyStatus configure(PyConfig *config, char *program, int argc, char **argv)
{
    char copy[PATH_MAX], modules[PATH_MAX + 16], extensions[PATH_MAX + 32];
    struct { wchar_t **option; const char *text; } texts[] = {
        {&config->program_name, program},
        {&config->executable, program},
        {&config->base_executable, program},
        {&config->prefix, NULL},
        {&config->exec_prefix, NULL},
        {&config->base_prefix, NULL},
        {&config->base_exec_prefix, NULL},
        {&config->home, NULL},
        {&config->platlibdir, "lib"},
        {&config->stdlib_dir, modules},
        {&config->run_command, "import kvedge.__main__"},
    };

    strcpy(copy, program);
    char *home = dirname(copy);
    snprintf(modules, sizeof modules, "%s/lib", home);
    snprintf(extensions, sizeof extensions, "%s/lib/lib-dynload", home);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        PyStatus status = PyConfig_SetBytesString(config, texts[i].option, texts[i].text ? texts[i].text : home);
        if (PyStatus_Exception(status))
            return status;
    }
    for (const char *path = modules; path; path = path == modules ? extensions : NULL) {
        wchar_t *wide = Py_DecodeLocale(path, NULL);
        if (!wide)
            return PyStatus_NoMemory();
        PyStatus status = PyWideStringList_Append(&config->module_search_paths, wide);
        PyMem_RawFree(wide);
        if (PyStatus_Exception(status))
            return status;
    }
    config->module_search_paths_set = 1;
    config->site_import = 0;
    config->write_bytecode = 0;
    config->install_signal_handlers = 1;
    config->parse_argv = 0;
    return PyConfig_SetBytesArgv(config, argc, argv);
}

int main(int argc, char **argv)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) {
        fputs("error: /proc is not mounted, and kvedge needs it\n", stderr);
        return 5;
    }
    program[length] = 0;

    PyPreConfig early;
    PyPreConfig_InitIsolatedConfig(&early);
    /* Whatever the locale: names and texts of Kubernetes are UTF-8. */
    early.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&early);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    status = configure(&config, program, argc, argv);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);

    PyObject *file = PyUnicode_DecodeFSDefault(getenv(FILE_VARIABLE) ? getenv(FILE_VARIABLE) : "");
    unsetenv(FILE_VARIABLE);
    if (!file || PySys_SetObject("frozen", Py_True) || PySys_SetObject("kvedge_file", file)) {
        PyErr_Print();
        return 1;
    }
    Py_DECREF(file);
    return Py_RunMain();
}
