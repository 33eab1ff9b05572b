/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.h - a folder, and daemons of this machine that end with this process: what rows with real processes stand on.
 *
 * Thread: the main one.
 */
#ifndef BENCH_CLUSTER_RIG_H
#define BENCH_CLUSTER_RIG_H

#include "tests/bench/bench.h"

enum { RIG_PATH = 256, RIG_PATIENCE_MS = 20000 };

struct rig_folder {
    char dir[64], bin[RIG_PATH]; /* made for this run; where this program and the daemons lie */
    bool is_tls;                 /* set after it is made: head and raylets speak TLS */
};

double rig_now_ms(void);
bool   rig_folder_make(struct rig_folder *f);
void   rig_folder_remove(const struct rig_folder *f);
/* Starts a program, its output in the file `log` of the folder; its descriptor 3 is `ready` where that is not negative. It dies
 * with this process. */
pid_t rig_spawn(const struct rig_folder *f, const char *log, int ready, char *const *argv);
/* ... and waits for the first line on its descriptor 3. -1: none came, and that was said. */
pid_t rig_spawn_ready(const struct rig_folder *f, const char *log, char *const *argv, char *line, size_t size);
/* A head in the folder. -1: it does not start, and that was said. */
pid_t rig_head(const struct rig_folder *f);
struct rig_raylet {
    const char *name;   /* of its folder in the folder, and of its log */
    const char *cpus;   /* NULL: 1 */
    const char *labels; /* NULL: none */
    const char *store;  /* bytes of its store; NULL: 64 MiB */
    const char *gpus;   /* NULL: those of the machine */
};
/* A raylet of that head. With `ready` >= 0 it says there that it has joined, and nobody waits for it. -1: as above. */
pid_t rig_raylet(const struct rig_folder *f, const struct rig_raylet *of, int ready);
void  rig_end(pid_t *pid, int signal_number); /* and waits for it; 0: nothing */

#endif
