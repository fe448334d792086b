/* The executable of one file: CPython, with all modules in an archive behind its own end.
 *
 * It takes the place of Programs/python.c where CPython is linked. It reads no environment of
 * Python's, no site-packages and no file but itself.
 */

#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Runs behind the archive's own importer; see startup.py. */
static const wchar_t *const COMMAND = L"import startup; startup.main()";

static int
fail(PyStatus status)
{
    if (PyStatus_IsExit(status)) {
        return status.exitcode;
    }
    fprintf(stderr, "kdump: cannot start: %s\n", status.err_msg);
    return 1;
}

int
main(int argc, char **argv)
{
    char path[PATH_MAX + 1];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length < 0) {
        fprintf(stderr, "kdump: /proc/self/exe: expected a link to this executable: %s\n",
                strerror(errno));
        return 1;
    }
    path[length] = '\0';

    PyPreConfig before;
    PyPreConfig_InitPythonConfig(&before);
    before.isolated = 1;
    before.use_environment = 0;
    before.parse_argv = 0;
    PyStatus status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status)) {
        return fail(status);
    }
    wchar_t *wide = Py_DecodeLocale(path, NULL);
    if (wide == NULL) {
        fprintf(stderr, "kdump: %s: this path cannot be decoded\n", path);
        return 1;
    }

    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.isolated = 1;
    config.use_environment = 0;
    config.user_site_directory = 0;
    config.site_import = 0;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.parse_argv = 0;
    config.module_search_paths_set = 1;
    status = PyConfig_SetBytesArgv(&config, argc, argv);
    wchar_t **const texts[] = {
        &config.program_name, &config.executable,  &config.base_executable, &config.home,
        &config.prefix,       &config.exec_prefix, &config.base_prefix,     &config.base_exec_prefix,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !PyStatus_Exception(status); i++) {
        status = PyConfig_SetString(&config, texts[i], wide);
    }
    if (!PyStatus_Exception(status)) {
        status = PyConfig_SetString(&config, &config.run_command, COMMAND);
    }
    if (!PyStatus_Exception(status)) {
        status = PyWideStringList_Append(&config.module_search_paths, wide);
    }
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    PyMem_RawFree(wide);
    return PyStatus_Exception(status) ? fail(status) : Py_RunMain();
}
