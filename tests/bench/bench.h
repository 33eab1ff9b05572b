/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - what the cases of manta-bench share: options, measuring, floors, rows.
 *
 * A case is one line of a table: its id, its unit, the floor beside which it stands, and a function that fills a row.
 * Windows are measured as Ray's microbenchmark does it: a warm-up, then BENCH_WINDOWS windows of at least
 * options.seconds each, mean and deviation over the windows. Every result that counts is verified.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "tests/bench/cases/families.h"

#include <manta.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    BENCH_WINDOWS = 4,
    BENCH_BATCH = 1000,         /* calls of one step, as in Ray's cases */
    BENCH_DEEP = 10000,         /* calls of one step of our own asynchronous cases */
    BENCH_WAIT_MS = 30 * 1000,  /* longest wait for any result; then the case fails */
    BENCH_SAMPLES_MAX = 200000, /* of a latency */
    BENCH_SAMPLES_MIN = 8,      /* however long they take */
};

enum bench_floor {
    FLOOR_NONE,
    FLOOR_RING_RTT,  /* us: a record there and back, both sides polling */
    FLOOR_RING_RATE, /* records/s: one way */
    FLOOR_FUTEX_RTT, /* us: there and back, both sides asleep */
    FLOOR_TCP_RTT,   /* us: 64 bytes there and back over loopback TCP, two processes in blocking calls */
    FLOOR_MEMCPY,    /* GB/s: 1 GiB into memory that is there */
    FLOOR_NT_COPY,   /* GB/s: the same past the caches */
    FLOOR_MEMCPY_1K, /* per second: 1 KiB into 8 MiB of memory that is there */
    FLOOR_FORK,      /* us: fork, exit, wait */
    FLOOR_GRPC,      /* records/s over one gRPC stream between two processes, in messages of 32 KiB */
    FLOOR_GEMM,      /* GFLOP/s: a product of 1024 x 1024 floats, one core (train/models.c measures it) */
    FLOOR_POTRF,     /* GFLOP/s: OpenBLAS' own Cholesky, a thread for each CPU (cpus/cholesky.c measures it) */
    FLOOR_VIEWS,     /* MB: each node's entry once to each node (cluster/main.c measures it) */
    FLOOR_TLS,       /* GB/s: one TLS connection of a group's, one way (cluster/coll.c measures it) */
    FLOOR_TCP,       /* GB/s: one TCP connection, one way (cluster/values/pull.c measures it) */
    FLOOR_REDIS,     /* commits/s: redis-benchmark with the same script (head/main.c measures it) */
    FLOOR_BARE,      /* us: METG of bare processes that share a page (metg/bare.c) */
    FLOOR_BARE_TCP,  /* us: the same of two nodes with TCP between; the better one of yielding and asleep */
    FLOOR_COUNT
};

struct bench_options {
    double      seconds; /* least length of a window */
    const char *address; /* NULL: a private cluster */
    const char *filter[16];
    int         filter_count;
    enum { BENCH_TABLE, BENCH_WIDE, BENCH_JSON } output;
};

struct bench_row {
    const char      *id, *unit;
    double           value, sd;
    uint64_t         n; /* what was counted: calls, bytes' copies, samples */
    enum bench_floor floor;
    double           floor_value;
    double           p50, p99;                                 /* of a latency */
    enum { BENCH_ONE_ROW, BENCH_AND_P50, BENCH_AND_P99 } more; /* a latency's second row: "id.p50" or "id.p99" */
    double cores; /* that the cluster and this process used, polling included; 0: not measured */
};

struct bench {
    struct bench_options options;
    char                 program[4096];       /* this executable */
    double               floors[FLOOR_COUNT]; /* 0: not measured yet */
    int                  cpus;
    int64_t              next; /* argument of the next call, so that no two are alike */
    manta_ref           *refs[BENCH_DEEP];
    int                  failures;
};

struct bench_case {
    const char      *id, *unit;
    enum bench_floor floor;
    bool             needs_cluster;
    /* False: the case failed, and said why on stderr. With *n left 0 it does not apply here. */
    bool (*run)(struct bench *b, struct bench_row *row);
};

/* The tables; each ends with id NULL. */
#define X(name) extern const struct bench_case bench_##name##_cases[];
BENCH_FAMILIES(X)
#undef X

/* ---- measure.c ---- */
uint64_t bench_now_ns(void);
void     bench_sleep_us(int64_t us);
/* One step of a case, embedded in what it needs. Returns how much was done (calls, GB, ...), < 0: failed. */
struct bench_step {
    double (*run)(struct bench_step *step);
    struct bench *b;
};
/* Runs steps through the windows; row gets the rate per second. `scale` multiplies it. */
bool bench_rate(struct bench_step *step, struct bench_row *row, double scale);

struct bench_samples {
    double *data;
    size_t  count;
};
bool bench_samples_init(struct bench_samples *samples);
void bench_samples_add(struct bench_samples *samples, double x);
/* Row gets the quantile (0.5, 0.99) as its value, both of these two, and the deviation; frees the samples. */
bool bench_samples_row(struct bench_samples *samples, double quantile, struct bench_row *row);
/* One step of a latency: returns microseconds, < 0: failed. Samples for all windows, then the quantile. */
bool bench_latency(struct bench_step *step, struct bench_row *row, double quantile, size_t samples_max);

/* ---- floors.c, grpc/floor.c ---- */
double bench_floor(struct bench *b, enum bench_floor which);
double bench_grpc_floor(struct bench *b);
extern const struct bench_floor_text {
    const char *id, *unit;
} bench_floor_texts[FLOOR_COUNT];

/* Both ends of a connection over loopback, without Nagle's delay. False: errno says why. */
bool bench_tcp_pair(int out[2]);
/* Moves a process (0: the calling thread) to the first or the last core that it may use now. */
void bench_core_choose(int pid, bool last);

/* ---- functions.c: what runs in the workers, and how its results are checked ---- */
int64_t bench_mix(int64_t x); /* the function that every no-op task computes */
enum { BENCH_ASK_PID = -1 };  /* as argument: the pid of the process that runs it */
manta_ref *bench_task(const manta_task_opts *opts, int64_t x);
/* Submits and gets `count` tasks at a time, checks each result, and once in a while who ran them. */
double bench_tasks(struct bench *b, const manta_task_opts *opts, int count);
bool   bench_check_worker(const manta_task_opts *opts);
bool   bench_value(manta_ref *take_ref, int64_t wanted);  /* gets, compares, frees */
bool   bench_say(const manta_error *e, const char *what); /* to stderr; false */

/* ---- process.c: what /proc says ---- */
/* CPU time of this process and all below it, in seconds. */
double bench_cpu_seconds(void);
/* PSS in bytes of the processes below `root` whose name is `name`; how many in *count. */
double bench_pss(int root, const char *name, int *count);
/* Descriptors of those below this one whose name is `name`; NULL: of this one. */
int bench_fds(const char *name);
/* Runtime folder of the cluster that this process has started; false: none was found. */
bool bench_cluster_folder(char *out, size_t size);
/* 'R', 'S', ...; 0 when it is gone. */
char bench_process_state(int pid);
/* Whether its first thread sleeps in futex(2). */
bool bench_process_is_in_futex(int pid);
/* Path of a program beside this one; false where there is none. */
bool bench_program(const struct bench *b, const char *name, char *path, size_t size);

/* ---- board.c: a page that this process and its workers share, to tell times and pids ---- */
struct bench_board {
    volatile int64_t pid;
    volatile int64_t started_ns;
    volatile int64_t may_fail; /* bench_fail's gate */
    /* manta-bench-cpus: tasks that run now; the most at once; tasks that began although as many ran as there are CPUs */
    _Atomic int64_t running, most, over;
};
/* NULL on failure. The number for bench_board_map in a worker on this machine in *number. */
struct bench_board *bench_board_new(uint64_t *number);
struct bench_board *bench_board_map(uint64_t number);
void                bench_board_free(struct bench_board *board);

/* ---- nodes.c: a head and two raylets of one CPU each, with sockets between them ---- */
enum { BENCH_DAEMONS = 3 };
struct bench_nodes {
    char  folder[64];
    char  dirs[2][80]; /* runtime folders of the two raylets: addresses for manta_init */
    pid_t daemons[BENCH_DAEMONS];
};
/* `cpus`: of the second one; the first has one. False: said why on stderr, and left nothing. */
bool bench_nodes_start(const struct bench *b, struct bench_nodes *n, int cpus);
void bench_nodes_stop(struct bench_nodes *n);

/* ---- child.c: this program again, as a driver with a cluster of its own that does one thing ---- */
struct bench_report {          /* what it sends back */
    uint64_t         ready_ns; /* when its first result was there */
    double           pss;      /* idle: of head and raylet */
    int32_t          heads, raylets;
    struct bench_row row; /* value, sd, n, cores of what it measured */
};
/* Runs it; `address` NULL: with a private cluster. False: said why on stderr. */
bool bench_child_run(struct bench *b, const char *what, const char *address, struct bench_report *report);
/* In the child, connected: measures `what` and sends it. Returns the exit status. */
int bench_child(struct bench *b, const char *what, int fd);

/* ---- cases/watch.c ---- */
/* In the child: tasks at full speed (1/s); `manta list tasks` over a million that have ended (ms): all of them as
 * JSON, or those of a state that none has. < 0: failed. */
double bench_child_rate(struct bench *b);
double bench_child_list(struct bench *b, bool all);

/* ---- cases/task.c ---- */
/* The cases of another node, on a cluster of two: tasks_remote, and the round trip of one task or one actor call. *row stays
 * empty where there is no other node. */
bool bench_tasks_remote(struct bench *b, struct bench_row *row);
bool bench_rtt_remote(struct bench *b, struct bench_row *row, bool is_call);

/* ---- output.c ---- */
void bench_print_head(const struct bench *b);
void bench_print_row(const struct bench *b, const struct bench_row *row);
/* A row without floor and deviation; `n`: what was counted. */
void bench_print_value(const struct bench *b, const char *id, const char *unit, double value, uint64_t n);

#endif
