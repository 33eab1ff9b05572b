/* SPDX-License-Identifier: Apache-2.0
 *
 * init.c - manta_init: driver, zygote or worker.
 *
 * Owns:   nothing. Thread: the program's main thread.
 */
#include "clients/lib/shell/env/env.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/output/output.h"
#include "clients/lib/shell/program/program.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/zygote/zygote.h"
#include "clients/lib/start/start.h"

#include "core/base/reserved.h"
#include "core/sys/folder.h"
#include "core/text/amounts.h"
#include "core/text/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* Started by a raylet: serve, and never come back. */
static void serve_if_worker(int argc, char **argv)
{
    const char *role = getenv("MANTA_ROLE");
    const char *fd_text = getenv("MANTA_FD");
    int         fd;
    if (!role || strcmp(role, "zygote") || !fd_text)
        return;
    fd = (int)strtol(fd_text, NULL, 10);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsetenv("MANTA_ROLE");
    unsetenv("MANTA_FD");
    lib_zygote_serve(fd, argc, argv);
}

/* A failed check of ours poisons the library instead of ending the user's process. */
static void on_assert(const char *expr, const char *file, int line)
{
    char text[256];
    if (lib.role == LIB_WORKER)
        abort();
    snprintf(text, sizeof text, "internal check failed: %s (%s:%d); every later call fails", expr, file, line);
    lib_break(MT_EINTERNAL, text);
}

/* "HOST:PORT,..." and a line of the same kind have one in common. */
static bool shares_address(const char *list, const char *line)
{
    for (const char *at = list; *at; at += *at == ',') {
        size_t size = strcspn(at, ",");
        for (const char *of = line; *of && *of != '\n'; of += *of == ',') {
            size_t other = strcspn(of, ",\r\n");
            if (size == other && size > 0 && strncmp(at, of, size) == 0)
                return true;
            of += other;
            of += *of == '\r';
        }
        at += size;
    }
    return false;
}

/* Programs speak to the raylet of their own machine. One that names heads means the node of their cluster here: the one in the
 * user's runtime folder, where it is one. Its file names a head in its first line, and in another one all that were there. */
static bool folder_of_head(const char *heads, char *out, size_t size)
{
    static const char key[] = "heads=";
    char              path[512], line[1280] = "";
    bool              is_it = false, is_first = true;
    FILE             *file = mt_folder_usual(out, size).code || snprintf(path, sizeof path, "%s/head.addr", out) >= (int)sizeof path
                                 ? NULL
                                 : fopen(path, "re");
    for (; file && !is_it && fgets(line, sizeof line, file); is_first = false) {
        bool is_list = strncmp(line, key, sizeof key - 1) == 0;
        is_it = (is_first || is_list) && shares_address(heads, is_list ? line + sizeof key - 1 : line);
    }
    if (file)
        fclose(file);
    return is_it;
}

static mt_status connect_to(const char *address, int *out_fd, char text[256])
{
    char        path[4096], folder[256];
    const char *given = getenv(LIB_SOCKET); /* a raylet of root's has started us as another user, and connected us before */
    mt_status   st;
    if (given) {
        *out_fd = (int)strtol(given, NULL, 10);
        unsetenv(LIB_SOCKET);
        return fcntl(*out_fd, F_SETFD, FD_CLOEXEC) == 0 ? mt_ok() : mt_error(MT_ECONN, errno, "the socket that was given");
    }
    if (!strchr(address, '/') && strchr(address, ':')) {
        if (!folder_of_head(address, folder, sizeof folder)) {
            snprintf(text, 256,
                     "\"%.60s\" names a head, and no node of its cluster runs here in this user's runtime "
                     "folder: give the folder of a raylet on this machine (`manta start` names it)",
                     address);
            return mt_error(MT_EINVAL, 0, "address");
        }
        address = folder;
    }
    if (snprintf(path, sizeof path, "%s/raylet.sock", address) >= (int)sizeof path)
        return mt_error(MT_EINVAL, 0, "the address is too long");
    st = lib_socket_open(path, out_fd);
    if (st.code)
        snprintf(text, 256, "no raylet answers at %.150s (%s)%s", path, st.sys ? strerror(st.sys) : st.what,
                 st.sys == EACCES || st.sys == EPERM ? ": it is another user's" : ": start one with `manta start --head`");
    return st;
}

static const char *name_of_program(char **argv)
{
    const char *slash = argv && argv[0] ? strrchr(argv[0], '/') : NULL;
    return slash ? slash + 1 : argv && argv[0] ? argv[0] : "driver";
}

static mt_status be_driver(const manta_init_opts *o, int argc, char **argv, char text[256])
{
    const char *address = o->address && !lib_is_warden() ? o->address : getenv("MANTA_ADDRESS");
    int64_t     timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : MT_LIB_CONNECT_MS;
    uint64_t    ids[2];
    int         fd = -1;

    MT_TRY(mt_random_bytes(ids, sizeof ids));
    MT_TRY(address && address[0] ? connect_to(address, &fd, text) : lib_private_start(o, &fd, text));
    lib.socket = fd;              /* lib_disconnect closes it where the rest fails: a private raylet then ends */
    MT_TRY(lib_program_tell(fd)); /* also on one node: the warden of a detached actor runs from a folder of its own */
    MT_TRY(lib_hello(fd, CTL_DRIVER, ids[0], ids[1], argc, argv, o->job_name ? o->job_name : name_of_program(argv)));
    MT_TRY(lib_welcome(fd, ids[0], timeout_ms, text));
    lib_private_up();
    return mt_ok();
}

bool manta_is_initialized(void)
{
    return lib_door_is_open();
}

static manta_status check_opts(const manta_init_opts *o, manta_error *e)
{
    char text[256];
    if (MT_RESERVED_IS_USED(o))
        return lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_init");
    if (o->num_cpus < 0 || o->num_gpus < 0 || o->store_memory < 0 || o->timeout_ms < 0 || o->max_blocked_workers < 0 ||
        o->job_pids < 0 || (o->job_pids && o->job_pids < MT_RLT_JOB_PIDS_MIN))
        return lib_error(e, MANTA_EINVAL,
                         "manta_init: num_cpus, num_gpus, store_memory, timeout_ms and max_blocked_workers can't be negative; "
                         "job_pids is 0 or at least %d",
                         MT_RLT_JOB_PIDS_MIN);
    const char *wrong = mt_amount_wrong_of_node("CPU", o->num_cpus);
    if (wrong)
        return lib_error(e, MANTA_EINVAL, "manta_init: num_cpus %g: %s", o->num_cpus, wrong);
    if ((wrong = mt_amount_wrong_of_node("GPU", o->num_gpus)))
        return lib_error(e, MANTA_EINVAL, "manta_init: num_gpus %g: %s", o->num_gpus, wrong);
    if (o->job_memory < 0 || (o->job_memory && o->job_memory < 1 << 20) || (o->store_memory && o->store_memory < 1 << 20))
        return lib_error(e, MANTA_EINVAL, "manta_init: store_memory and job_memory are 0 or at least 1 MiB");
    if (o->lineage_bytes < -1)
        return lib_error(e, MANTA_EINVAL, "manta_init: lineage_bytes is 0 (1 GiB), -1 (nothing) or more, not %lld",
                         (long long)o->lineage_bytes);
    if (o->labels && mt_labels_check(o->labels, text, sizeof text).code)
        return lib_error(e, MANTA_EINVAL, "manta_init: %s", text);
    if (o->name_space && strlen(o->name_space) >= sizeof lib.name_space)
        return lib_error(e, MANTA_EINVAL, "manta_init: name_space has at most %d letters", CTL_NAME_SIZE - 1);
    return MANTA_OK;
}

manta_status manta_init(int *argc, char ***argv, const manta_init_opts *opts, manta_error *e)
{
    static const manta_init_opts defaults;
    const manta_init_opts       *o = opts ? opts : &defaults;
    const char                  *space = o->name_space ? o->name_space : "default";
    char                         text[256] = "", *warden;
    uint64_t                     env = 0;
    char                         lineage[24];
    manta_status                 code;
    mt_status                    st;

    if (lib.role == LIB_NONE && strlen(space) < sizeof lib.name_space) /* workers are in the driver's */
        snprintf(lib.name_space, sizeof lib.name_space, "%s", space);
    serve_if_worker(argc ? *argc : 0, argv ? *argv : NULL);
    if (lib_is_forked())
        return lib_check(e);
    if (lib.role == LIB_DRIVER || lib.role == LIB_WORKER)
        return lib_error(e, MANTA_EINVAL, "manta_init was called before in this process: call manta_shutdown first");
    if (lib.role == LIB_OVER && strcmp(space, lib.name_space) != 0)
        return lib_error(e, MANTA_EINVAL,
                         "manta_init: name_space was \"%s\" before, and workers, which run this program from its "
                         "beginning, are in that: it stays",
                         lib.name_space);
    if ((code = lib_registry_check(e)) != MANTA_OK)
        return code;
    if ((code = check_opts(o, e)) != MANTA_OK)
        return code;
    if (!lib_output_choose(o->log_to_driver))
        return lib_error(e, MANTA_EINVAL, "manta_init: log_to_driver is 1, 0 or -1, MANTA_LOG_TO_DRIVER 1 or 0");
    snprintf(lineage, sizeof lineage, "%lld", (long long)o->lineage_bytes);
    mt_assert_set_hook(on_assert);
    warden = lib_warden_text();
    if ((o->checksum && setenv("MANTA_CHECKSUM", "1", 1)) || (o->lineage_bytes && setenv("MANTA_LINEAGE_BYTES", lineage, 1)))
        return lib_error(e, MANTA_ENOMEM, "manta_init: no memory for an environment variable");
    lib.has_set_checksum = o->checksum;
    lib.has_set_lineage = o->lineage_bytes != 0;
    lib.on_error = o->on_error;
    lib.on_error_user = o->on_error_user;
    st = lib_inline_wanted() ? lib_inline_start() : be_driver(o, argc ? *argc : 0, argv ? *argv : NULL, text);
    if (st.code) {
        lib_disconnect();
        lib_private_stop();
        lib_lock();
        lib_session_end("manta_init failed");
        lib_unlock();
        if (text[0])
            return lib_error(e, st.code, "%s", text);
        return lib_error_status(e, st);
    }
    lib_open(LIB_DRIVER);
    if (warden)
        lib_warden_serve(warden);
    if (o->runtime_env && (code = lib_env_make(o->runtime_env, &env, e)) != MANTA_OK) {
        manta_shutdown();
        return code;
    }
    lib.env = env;
    if (o->runtime_env && o->runtime_env->code && !realpath(o->runtime_env->code, lib.code))
        lib.code[0] = 0;
    return MANTA_OK;
}
