/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-head: the cluster's tables, its scheduler, and its jobs.
 */
#include "core/base/log.h"
#include "core/io/io.h"
#include "core/sys/process.h"
#include "scheduler/head/shell/options.h"
#include "scheduler/head/shell/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Read by jemalloc, our malloc: few arenas, and free pages go back to the kernel soon, since a head idles most of the
 * time. */
extern const char                                 *malloc_conf;
__attribute__((visibility("default"))) const char *malloc_conf = "narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0";

static void failed_check(const char *expr, const char *file, int line)
{
    fprintf(stderr, "manta-head: internal check failed: %s (%s:%d)\n", expr, file, line);
    abort();
}

int main(int argc, char **argv)
{
    struct head_options options;
    uint32_t            fds_before, fd_limit;
    mt_status           st = io_fill_standard_fds();
    if (st.code != 0)
        return 1;
    st = head_options_read(argc, argv, &options);
    if (st.code != 0)
        return st.code == MT_ENOENT ? 0 : 2;
    if (options.copy.verb) {
        umask(077);
        return head_copy_run(&options.copy);
    }
    io_close_inherited((const int[]){options.ready_fd, options.watch_fd}, 2);
    mt_assert_set_hook(failed_check);
    mt_log_set_sink(mt_log_to_stderr);
    mt_log_set_level(options.watch_fd >= 0 ? MT_LOG_WARN : MT_LOG_INFO); /* a private one is seen by a user */
    if (options.watch_fd >= 0)
        mt_process_wake_at_parents_end(); /* the driver's: it ends too */
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    io_say_crashes();
    signal(SIGXFSZ, SIG_IGN); /* a file-size limit is an error of write, not the head's death */
    st = io_raise_fd_limit(&fds_before, &fd_limit);
    if (st.code != 0) {
        fprintf(stderr, "manta-head: %s\n", st.what);
        return 1;
    }
    return head_run(&options);
}
