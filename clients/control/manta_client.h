/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_client.h - the control plane from any C program, inside or outside the cluster: submit jobs with their files,
 * follow their logs, wait for them, list state.
 *
 * Conventions, as in manta.h: pointers in are borrowed for the call; a call that fails fills *e (which may be NULL) and
 * returns its code; e->outcome says whether what was asked for has happened. A client that is NULL is EINVAL, one that was
 * closed or never was one EHANDLE. Every call may block; while the head is away, calls wait and try again up to the client's
 * timeout. A client is for one thread at a time: a call beside another thread's is EAGAIN and does nothing. Make a client for each
 * thread. A callback may call with the client that it was called for.
 * The library prints nothing and never ends the process; it starts threads of its own, so don't fork without exec: in
 * a child of a process that has made clients every call is EFORKED.
 */
#ifndef MANTA_CLIENT_H
#define MANTA_CLIENT_H

#include "manta_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct manta_client manta_client;

/* ---- the cluster ------------------------------------------------------------------------------------------------ */

typedef struct manta_client_opts {
    const char *address;    /* host:port of the head, or its runtime folder */
    const char *token_file; /* default: the one named beside the address */
    int64_t     timeout_ms; /* how long a call waits for a head that is away; 0: 30 s. Standing still does not count */
    const char *tls_file;   /* a node's certificate, its key, the authority's certificate; default: named beside the address */
    bool        insecure;   /* the token may travel in clear beyond this machine */
    uint64_t    reserved[8];
} manta_client_opts;

/* Finds the cluster and says hello. The address comes from opts, else MANTA_ADDRESS, else the settings file (MANTA_CONFIG,
 * ~/.manta/config: lines address=..., token_file=..., tls_file=...), else the head of this machine ($XDG_RUNTIME_DIR/manta,
 * /run/manta for root, ~/.manta/run). The token file from opts, else MANTA_TOKEN_FILE, else beside the address; the TLS file
 * likewise (MANTA_TLS_FILE). A head on another machine is spoken to with TLS only, unless `insecure`.
 * NULL and *e: ENOENT (no cluster is named anywhere), ECONN (nobody answers there), EAUTH (the token, or the certificates),
 * EUNSUPPORTED (another machine, and no TLS file), EINVAL, ENOMEM. */
MANTA_API manta_client *manta_client_open(const manta_client_opts *opts, manta_error *e);
/* Closing what is no client, or no more, changes nothing. A client that is closed while a call with it is under way (by a callback,
 * or by another thread) goes when that call ends. */
MANTA_API void manta_client_close(manta_client *client);

/* ---- jobs ------------------------------------------------------------------------------------------------------- */

typedef struct manta_job {
    const char        *id;         /* yours, or manta_job_new_id(); the same job submitted twice is one job */
    const char        *name;       /* for people; default: the id */
    const char *const *argv;       /* what runs, in the job's own folder; ends with NULL. Its umask is 077, it dumps no core, and
                                 set-user-ID programs gain nothing there: so the node starts all that it starts */
    const char *const *files;      /* copied there first; folders with all files that are in them; ends with NULL. One inside the
                                 current folder keeps its relative path, any other gets its last name. */
    const char *const *env;        /* NAME=value, before what the node has under that name; ends with NULL */
    int64_t            time_s;     /* an attempt that runs longer has failed; 0: no limit */
    uint32_t           retries;    /* started again so often when an attempt or its node fails */
    double             cpus, gpus; /* what the driver itself holds; none by default */
    int64_t            memory;     /* bytes */
    const char *const *metadata;   /* "key=value", for people and programs that list jobs; ends with NULL. Keys without spaces, none
                                      twice; values of one line; at most MANTA_JOB_METADATA bytes in all */
    int32_t            priority;   /* the higher, the sooner it is looked at; -1000 to 1000, above 0 for an admin's token only */
    uint32_t           array;      /* so many jobs ID.0, ID.1, ... are made of it, each with an end and a log of its own, and with
                                    MANTA_ARRAY_INDEX, _COUNT and _ID in its environment; 0: one job, ID */
    const char *const *after;      /* "afterok:ID", "afterany:ID", "afternotok:ID" (a job or an array): it starts when all of them
                                    hold, and fails when one can't any more; ends with NULL */
    bool               hold;       /* it does not start before manta_job_release */
    bool               preemptible; /* while it runs, one of higher priority that finds no room may send it away: SIGTERM, 30 s,
                                    SIGKILL; it begins again when there is room, and that costs no retry. One of a priority
                                    below 0 is always */
    uint8_t            reserved_hold[2];
    uint32_t           node; /* there or nowhere, for an admin's token only; 0: anywhere */
    /* A deadline says on which nodes the job may be where nodes are started by themselves (docs/design/scaler.md): on spot nodes
     * while there is time to spare, then on one that nobody takes away. It ends no job. An array has none. */
    uint64_t deadline_ms; /* since 1970: it is to have ended by then; 0: none */
    int64_t  work_s;      /* so long it runs from its beginning to its end, by your estimate; 0: time_s */
    int64_t  resume_s;    /* begun again elsewhere, it goes on where it was, after so long; 0: it starts over */
    int32_t  signal;   /* its notice, to its process group: notice_s before its time is up or the limit of its node's drain, and at
                             once when it is to make room for another, which then waits so long; 0: none but SIGTERM */
    uint32_t notice_s; /* 1 to 600, and less than time_s; with a signal */
    /* Instead of `array`: which indices its jobs have, as sbatch writes it: "0-9", "1,3,7", "0-99:10"; "%2" behind them lets 2 run
     * at a time. Each is 0 to 999999 and comes once; 10,000 at most. NULL: none. */
    const char *array_indices;
    uint64_t    reserved[8];
} manta_job;

enum { MANTA_JOB_METADATA = 1024 };

typedef struct manta_job_info {
    char     id[64];
    char     name[128];
    char     state[16];   /* PENDING RUNNING STOPPED SUCCEEDED FAILED */
    char     reason[512]; /* why it is pending, or how it ended */
    int      exit_code;
    uint32_t attempt; /* how often it was started */
    uint32_t node;    /* where it runs or ran; 0: nowhere yet */
    int      pid;
    uint64_t submitted_ms, started_ms, ended_ms; /* since 1970; 0: not yet */
    uint64_t log_size;
    char     metadata[MANTA_JOB_METADATA];    /* lines "key=value", as they were given */
    char     actor_space[64], actor_name[64]; /* the detached actor that the cluster keeps by this job; "": none */
    char user[64]; /* whose it is: the name of the token that it was submitted with, "admin" for the cluster's own; "": the job of
                          a detached actor, or of an older head */
    int32_t  priority;
    uint32_t array_index, array_count; /* of one job of an array */
    bool     is_held;
    uint8_t  reserved_held[3];
    char     array_id[64];             /* "": it is of none */
    uint64_t place;                    /* in the order in which jobs were submitted */
    double cpu_s, gpu_s, memory_gib_s; /* what was reserved for it and for its tasks, actors and groups, times how long, by all its
                                          attempts: CPU-seconds, GPU-seconds, GiB-seconds. Of one that runs up to 10 s old */
    double cost;          /* in the unit of the node types' prices, which are those of an hour; 0 where they have none */
    uint64_t deadline_ms; /* since 1970; 0: none */
    uint64_t reserved[40];
} manta_job_info;

typedef struct manta_log { /* borrowed for the callback */
    const char *text;      /* not NUL-terminated; not cut at line ends */
    size_t      len;
    uint64_t    offset; /* of text[0] in the job's whole log */
    uint32_t    attempt;
    uint64_t    reserved[4];
} manta_log;

/* Draws a new id. The text is the library's and stays until this thread has drawn 15 more. */
MANTA_API const char *manta_job_new_id(void);

/* Uploads the files that the cluster does not have (by SHA-256), then submits. Returns once the cluster has stored the job.
 * Calling it again with the same job is safe. EINVAL, ENOENT (a file; the job's node), EAUTH, EEXIST (another job has the id),
 * EUNSCHEDULABLE (no node can hold the driver, or its user may not have so much), EAGAIN (also: too many of the user's wait),
 * EDISK_FULL, ECONN (outcome MANTA_UNKNOWN: call it again). */
MANTA_API manta_status manta_job_submit(manta_client *client, const manta_job *job, manta_error *e);

/* Gives the job's log from its beginning, and what comes, until the job has ended; goes on by itself, exactly where it
 * was, after lost connections. `line` runs in this thread; not 0 from it ends the call with ECANCELLED. ENOENT, ECONN. */
MANTA_API manta_status manta_job_follow(manta_client *client, const char *id, int (*line)(void *user, const manta_log *log),
                                        void *user, manta_error *e);
/* The same from a byte offset. */
MANTA_API manta_status manta_job_follow_from(manta_client *client, const char *id, uint64_t offset,
                                             int (*line)(void *user, const manta_log *log), void *user, manta_error *e);

/* Waits until the job has ended. timeout_ms may be MANTA_FOREVER. ETIMEDOUT (*out_info says how it stands; may be NULL),
 * ENOENT, ECONN. */
MANTA_API manta_status manta_job_wait(manta_client *client, const char *id, int64_t timeout_ms, manta_job_info *out_info,
                                      manta_error *e);
/* How it stands now. ENOENT, ECONN. */
MANTA_API manta_status manta_job_get(manta_client *client, const char *id, manta_job_info *out_info, manta_error *e);
/* Asks the cluster to end the job, and does not wait for that (manta_job_wait does). A job that has ended stays as it is. ENOENT,
 * ECONN. */
MANTA_API manta_status manta_job_stop(manta_client *client, const char *id, manta_error *e);
/* The processes of the job's driver get that signal (SIGINT, SIGUSR1, ...), and what they make of it is theirs: this is no
 * manta_job_stop. Returns when the head has passed it on; it may come twice, or not at all, where a connection is lost meanwhile.
 * EINVAL: the job does not run, or that is no signal. ENOENT, EAUTH (another user's), ECONN. */
MANTA_API manta_status manta_job_signal(manta_client *client, const char *id, int signal, manta_error *e);
/* A job, or those of an array, that have not started: they do not start (hold), or may (release). Said again, it does nothing.
 * EINVAL: the job has started, or has ended. ENOENT, EAUTH (another user's), ECONN. */
MANTA_API manta_status manta_job_hold(manta_client *client, const char *id, manta_error *e);
MANTA_API manta_status manta_job_release(manta_client *client, const char *id, manta_error *e);
/* Deletes a job that has ended: its record, its log, and its uploaded files that no other job needs. EINVAL: the job has not ended;
 * stop it first. ENOENT: there is no such job. ECONN (outcome MANTA_UNKNOWN: call it again). */
MANTA_API manta_status manta_job_delete(manta_client *client, const char *id, manta_error *e);
typedef struct manta_job_array_info {
    char     id[64], name[128], user[64];
    uint32_t count;                                        /* of its jobs, as it was submitted */
    uint32_t pending, running, succeeded, failed, stopped; /* of the rest, which have ended, nothing is known any more */
    uint32_t first_failed;                                 /* index of the first of those that have failed or were stopped */
    uint64_t reserved[16];
} manta_job_array_info;

/* How the jobs of an array stand now. ENOENT: there is no such array. ECONN. */
MANTA_API manta_status manta_job_array_get(manta_client *client, const char *id, manta_job_array_info *out_info, manta_error *e);
/* Waits until all jobs of the array have ended; else as manta_job_wait. ETIMEDOUT (*out_info says how they stand; may be NULL),
 * ENOENT, ECONN. */
MANTA_API manta_status manta_job_array_wait(manta_client *client, const char *id, int64_t timeout_ms,
                                            manta_job_array_info *out_info, manta_error *e);
/* Jobs that have not ended, as `manta queue` shows them: those that run, the oldest first, then those that wait, in their turn,
 * each with the reason why; without metadata. At most `limit` of them, after the first `skip`; *out_total (may be NULL): how many
 * there are in all. Give *out_jobs back by free(). EUNSUPPORTED: the head is of an older release. ENOMEM, ECONN. */
MANTA_API manta_status manta_job_queue(manta_client *client, size_t skip, size_t limit, manta_job_info **out_jobs,
                                       size_t *out_count, size_t *out_total, manta_error *e);
/* The newest first; give *out_jobs back by free(). */
MANTA_API manta_status manta_job_list(manta_client *client, manta_job_info **out_jobs, size_t *out_count, manta_error *e);

/* ---- gangs: any program as supervised ranks (docs/gangs.md) ------------------------------------------------------ */

/* One that runs by itself: a job whose driver is `manta run`. The calls behind manta_gang_submit are those of its job, and fail as
 * those do. All block for the client's timeout at most, but follow and wait. */
typedef struct manta_gang {
    const char        *name;    /* 1 to 58 letters, without spaces or slashes */
    const char *const *options; /* as of `manta run`: "-n", "4", "--as", "torch"; ends with NULL; may be NULL */
    const char *const *argv;    /* the program and its arguments; ends with NULL */
    const char *const *files;   /* copied to the current folder of all ranks, as those of a job; ends with NULL; may be NULL */
    const char *const *env;     /* NAME=value, of driver and ranks; ends with NULL; may be NULL */
    uint32_t           retries; /* begun again so often when the driver or its node fails: all ranks then */
    uint64_t           reserved[8];
} manta_gang;

/* Returns once the cluster has stored it. One of that name that has ended is forgotten, with its log. EINVAL, EEXIST (one of that
 * name has not ended), and those of manta_job_submit. */
MANTA_API manta_status manta_gang_submit(manta_client *client, const manta_gang *gang, manta_error *e);
/* The same as manta_job_get, _follow, _wait and _stop. Told to stop, ranks get SIGTERM, and about 5 s. EINVAL: that is no name. */
MANTA_API manta_status manta_gang_get(manta_client *client, const char *name, manta_job_info *out_info, manta_error *e);
MANTA_API manta_status manta_gang_follow(manta_client *client, const char *name, int (*line)(void *user, const manta_log *log),
                                         void *user, manta_error *e);
MANTA_API manta_status manta_gang_wait(manta_client *client, const char *name, int64_t timeout_ms, manta_job_info *out_info,
                                       manta_error *e);
MANTA_API manta_status manta_gang_stop(manta_client *client, const char *name, manta_error *e);
/* The newest first; `name` is the gang's. Give *out_jobs back by free(). */
MANTA_API manta_status manta_gang_list(manta_client *client, manta_job_info **out_jobs, size_t *out_count, manta_error *e);

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

enum {
    MANTA_NODE_ALIVE = 1,
    MANTA_NODE_SUSPECT = 2,
    MANTA_NODE_DEAD = 3, /* has_left: it was drained, and is gone as was asked for */
    MANTA_NODE_DRAINING = 4,
    MANTA_NODE_RESOURCES = 16
};

typedef struct manta_node_resource {
    char     name[24]; /* CPU, GPU, memory (bytes), or the user's */
    double   total, free;
    double   held; /* by placement groups: not free to others, at work or not */
    uint64_t reserved[4];
} manta_node_resource;

typedef struct manta_cluster_node {
    uint32_t            node, epoch;
    int                 state;
    char                name[128];
    char                address[128];
    char                reason[160]; /* why it is suspect, dead, or draining */
    char                labels[256]; /* "key=value,..." */
    size_t              resource_count;
    manta_node_resource resources[MANTA_NODE_RESOURCES];
    uint64_t            drain_left_ms; /* draining: until its limit; what runs on then is stopped */
    bool                has_left;
    char                waits[167];     /* draining: what it still waits for, for people; "": nothing, or not known yet */
    uint64_t            certificate_ms; /* wall clock, since 1970: when its certificate ends; 0: it has none of its own */
    uint64_t            reserved[9];
} manta_cluster_node;

typedef struct manta_cluster_info {
    char     cluster[40];  /* id */
    char     address[128]; /* of the head */
    uint64_t head_epoch;   /* how often the head was started */
    bool     runs_as_root;
    bool     has_tls;       /* this client speaks TLS to it */
    bool     is_insecure;   /* it is reached from other machines in clear */
    uint64_t standby_count; /* heads that stand by */
    char     standbys[160]; /* their addresses, as many as fit: "host:port,..." */
    uint64_t reserved[11];
} manta_cluster_info;

/* Give *out_nodes back by free(); out_cluster may be NULL. */
MANTA_API manta_status manta_nodes_list(manta_client *client, manta_cluster_node **out_nodes, size_t *out_count,
                                        manta_cluster_info *out_cluster, manta_error *e);

/* Another head, which stands by, is to lead; `reason` is for people (NULL: none). Returns when the one that leads has taken note:
 * it acknowledges nothing more then. The next call finds the new one. ENOENT: no head stands by. */
MANTA_API manta_status manta_cluster_step_down(manta_client *client, const char *reason, manta_error *e);

/* Writes the head's state, as of one commit, into a new file of mode 0600, while the cluster goes on: jobs, names, groups,
 * nodes; no secrets, no uploaded files, no output of jobs. `manta head restore` makes a head's state of it. EEXIST: there is
 * such a file; EDISK_FULL, ESYS: it can't be written, and there is none. Blocks for as long as the state takes to come. */
MANTA_API manta_status manta_cluster_backup(manta_client *client, const char *file, manta_error *e);

/* ---- state ------------------------------------------------------------------------------------------------------ */

typedef struct manta_look {
    const char        *kind;    /* tasks, task_summary, actors, workers, demands, objects, node, stacks,
                                   placement-groups */
    const char *const *filters; /* "column=value" or "column!=value", all of which must hold; NULL, or ends with NULL */
    size_t             limit;   /* rows; 0: 100 */
    uint32_t           node;    /* only this one; 0: every node that is alive */
    uint64_t           reserved[8];
} manta_look;

/* Rows as texts, the same columns in each. Times are ns since 1970, sizes are bytes; "" is: not known, or not yet. */
typedef struct manta_rows {
    size_t             column_count, count;
    const char *const *columns;
    const char *const *cells;       /* row after row: cell (row, column) is cells[row * column_count + column] */
    bool               is_cut;      /* there may be more: `limit` was reached */
    char               notice[512]; /* what is missing (nodes or processes that have not answered); "": nothing */
    uint64_t           reserved[8];
} manta_rows;

/* Asks every node what it knows: of tasks those that have not ended and the last ones that have (each worker keeps some
 * 30,000), of objects those in shared memory. The head keeps nothing of it. A task that is under way in one place and told of
 * in two is one row. A node that does not answer is in the notice. EINVAL (kind or filter), ENOENT (node), ECONN, ENOMEM. */
MANTA_API manta_status manta_state_list(manta_client *client, const manta_look *look, manta_rows **out_rows, manta_error *e);
/* NULL is allowed; what was freed before, or is no such list, is left alone. */
MANTA_API void manta_rows_free(manta_rows *rows);

/* One row of a list that is too long to keep. */
typedef struct manta_state_row {
    size_t             column_count;
    const char *const *columns;
    const char *const *cells;   /* valid until the function returns */
    uint64_t           changed; /* bit i: cell i may differ from that of the row before; set for all cells of the first */
    uint64_t           reserved[4];
} manta_state_row;
/* False: no more rows are wanted. It may use the client, and not close it. */
typedef bool (*manta_state_row_fn)(void *user, const manta_state_row *row);

/* The same rows in the same order, each given to `each` on the calling thread. They come while the nodes are asked, as far as no
 * later answer can change them: a task that has not ended, and all rows behind it, come at the end, since a worker may tell more of
 * it. Blocks as manta_state_list does, and as `each`. *out_end has all but the cells: columns, count, is_cut (also where `each`
 * wanted no more) and notice; free it with manta_rows_free. After an error some rows have been given. Errors as above; EINVAL: no
 * `each`. */
MANTA_API manta_status manta_state_each(manta_client *client, const manta_look *look, manta_state_row_fn each, void *user,
                                        manta_rows **out_end, manta_error *e);

/* Lets a node leave: nothing new is placed there, what runs there may end within limit_ms (at most 24 hours; < 0: 30 s), and is
 * stopped then; it begins again elsewhere, which costs no retry and no restart. (An actor without restarts is dead then.) The
 * node's raylet ends with status 0, and the node is DEAD with has_left. What is done of which kind: docs/design/drain.md. It can't
 * be taken back. Returns when the head has stored it; manta_nodes_list shows how far it is. `reason` is for people; NULL is
 * allowed. Blocks for the client's timeout at most. ENOENT (no such node), EEXIST (it is being drained already), EINVAL (it is
 * dead or has left; the limit), ECONN. */
MANTA_API manta_status manta_node_drain(manta_client *client, uint32_t node, int64_t limit_ms, const char *reason, manta_error *e);

/* ---- nodes that are started and given back by themselves ---------------------------------------------------------- */

typedef struct manta_scale_resource {
    const char *name;   /* CPU, GPU, memory (bytes), or your own */
    double      amount; /* to the thousandth */
} manta_scale_resource;
typedef struct manta_scale_setting { /* for the provider alone */
    const char *name, *value;
} manta_scale_setting;

typedef struct manta_scale_type { /* a kind of node that can be started */
    const char                 *name;
    const manta_scale_resource *resources;      /* what such a node has */
    size_t                      resource_count; /* 0: as the first one that joins tells; until then only one of it is started */
    const char                 *labels;         /* "key=value,..."; NULL: none. Each node has manta.type=NAME too */
    uint32_t                    min, max;       /* nodes of it: never fewer, never more */
    int64_t                     idle_ms; /* one that nobody uses is given back after that, and after twice the time that one takes
                                             to come; 0: at once */
    int64_t                     boot_ms; /* one that has not joined by then is given up; 0: 300 s */
    double                      price;   /* any unit, the same for all; 0: not said */
    const manta_scale_setting  *settings;
    size_t                      setting_count;
    const char *const          *zones; /* it can be had in each of these; each node has zone=ZONE too */
    size_t                      zone_count;
    bool                        is_spread; /* the next node goes to the zone with the fewest; else to the first that can be had */
    bool                        is_spot;   /* the provider may take a node away again at any time; its label: manta.spot=true */
    uint64_t                    reserved[5];
} manta_scale_type;

typedef struct manta_scale_cluster {
    const char                *provider; /* local, command, or the path of a program (docs/design/scaler.md) */
    const manta_scale_setting *settings;
    size_t                     setting_count;
    const manta_scale_type    *types;
    size_t                     type_count;
    uint32_t                   max;           /* nodes in all that the head has started; 0: no bound */
    uint64_t                   on_demand_min; /* of those at least so many are no spot nodes, as long as there are spot nodes */
    int64_t  consolidate_ms; /* a node of which half at most is used, and by tasks alone, goes after that, if as much is
                                                  free twice on others of its type; 0: 600 s; < 0: never */
    uint64_t reserved[6];
} manta_scale_cluster;

typedef struct manta_scale_row { /* for people */
    char what[96];
    char text[416];
} manta_scale_row;

/* Says what the head may start from now on. It takes the place of what was said before: nodes of types that are left out are given
 * back when they are idle, nodes that run keep what they have. The same again changes nothing. `is_dry`: only tells what would
 * change. Rows: what changes, by type. Everything is copied. All four block for the client's timeout at most, on any thread; a list
 * of rows is given back by free(), and out_rows may be NULL. EINVAL (what is wrong is in the message; also another provider while
 * nodes of the first run), EAGAIN, EDISK_FULL, ECONN (call it again). */
MANTA_API manta_status manta_scale_up(manta_client *client, const manta_scale_cluster *cluster, bool is_dry,
                                      manta_scale_row **out_rows, size_t *out_count, manta_error *e);
/* All nodes that the head has started are to go: what runs there may end within 30 s. Returns when that is stored; manta_scale_look
 * tells how many are left. OK where there are none. ECONN. */
MANTA_API manta_status manta_scale_down(manta_client *client, manta_error *e);
/* Room for `count` of such a shape is to be there, whether it is used or not, until the same name is given with count 0. It counts
 * what nodes have in all, and not what is free. EINVAL, ENOENT (no cluster file), EAGAIN (too many), ECONN. */
MANTA_API manta_status manta_scale_request(manta_client *client, const char *name, const manta_scale_resource *resources,
                                           size_t resource_count, const char *labels, uint32_t count, manta_error *e);
/* "status": types and instances; "explain": why each thing that waits does, and why each node is kept; "history": what was decided,
 * the newest first. *out_instances (may be NULL): started things that are not gone. EINVAL (no such word), ECONN, ENOMEM. */
MANTA_API manta_status manta_scale_look(manta_client *client, const char *what, manta_scale_row **out_rows, size_t *out_count,
                                        uint32_t *out_instances, manta_error *e);

/* The node may not belong to the cluster any more: its certificate is refused from now on by the head, and within a second by every
 * node that the head reaches; its connections there end, it is DEAD, and what it ran begins again elsewhere. Durable. It comes back
 * with a new ticket only. `reason` is for people; NULL is allowed. Blocks for the client's timeout at most. ENOENT (no such node),
 * EUNSUPPORTED (it has no certificate of its own), EINVAL (it is the head's own), EAGAIN (too many), ECONN. */
MANTA_API manta_status manta_node_revoke(manta_client *client, uint32_t node, const char *reason, manta_error *e);

/* ---- tickets: with one of them another machine joins (manta start --join FILE) ---------------------------------- */

typedef struct manta_ticket {
    char     id[17]; /* hexadecimal; opens nothing by itself */
    bool     is_revoked;
    char     name[64];
    uint32_t uses, used;       /* so many may join; so many have */
    uint64_t made_ms, ends_ms; /* wall clock, since 1970; by the head's clock */
    uint64_t last_ms;          /* of its last use; 0: none */
    char     last[64];         /* the machine that used it last */
    uint64_t reserved[8];
} manta_ticket;

typedef struct manta_ticket_opts {
    const char *name;     /* for people; NULL: none */
    uint32_t    uses;     /* 0: one; at most 1000 */
    uint64_t    valid_ms; /* 0: ten minutes; at most 23 days */
    uint64_t    reserved[8];
} manta_ticket_opts;

/* Makes a ticket. *out_join is the text that the other machine needs, a secret: hand it over by standard input or in a file of mode
 * 0600; free() gives it back. `opts` and out_ticket may be NULL. Blocks for the client's timeout at most. EINVAL, EUNSUPPORTED (the
 * cluster speaks in clear, or its certificates are the user's own), EAGAIN (too many tickets), ECONN, ENOMEM. */
MANTA_API manta_status manta_ticket_create(manta_client *client, const manta_ticket_opts *opts, char **out_join,
                                           manta_ticket *out_ticket, manta_error *e);
/* Those that are good, and those that were not long ago; give *out_tickets back by free(). ECONN, ENOMEM. */
MANTA_API manta_status manta_tickets_list(manta_client *client, manta_ticket **out_tickets, size_t *out_count, manta_error *e);
/* Nobody joins with it any more; who has stays. Said again, it does nothing. EINVAL (that is no id), ENOENT, ECONN. */
MANTA_API manta_status manta_ticket_revoke(manta_client *client, const char *id, manta_error *e);

/* ---- named tokens: who asks, and what he may ask ---------------------------------------------------------------------- */

/* Each right contains those before it. The cluster's own token has the last. */
enum {
    MANTA_TOKEN_READ = 1,   /* lists, states, logs */
    MANTA_TOKEN_SUBMIT = 2, /* jobs; to stop and delete those that this token's name has submitted */
    MANTA_TOKEN_ADMIN = 3   /* everything: nodes, tickets, tokens, other people's jobs, the cluster's end */
};

typedef struct manta_token {
    char     name[64];
    int      right;
    bool     is_revoked, is_ended;
    uint64_t made_ms, ends_ms; /* wall clock, since 1970, by the head's clock; ends_ms 0: it has no end */
    uint64_t reserved[8];
} manta_token;

typedef struct manta_token_opts {
    const char *name;     /* 1 to 63 letters, digits, or . _ - @, the first of them no sign but _ */
    int         right;    /* MANTA_TOKEN_READ, ... */
    uint64_t    valid_ms; /* 0: until it is revoked */
    uint64_t    reserved[8];
} manta_token_opts;

/* Makes a token. *out_text is its text with the end of its line, a secret: write it into a file of mode 0600 (token_file of
 * manta_client_opts); free() gives it back. The head keeps its hash alone, so a lost one can't be shown again: revoke it, and make
 * another. out_token may be NULL. Blocks for the client's timeout at most. EINVAL (the name, the right), EEXIST (a token of this
 * name is good), EAGAIN (too many), EAUTH (this client's token is not good for admin), EDISK_FULL, ECONN (revoke the name, then
 * call again), ENOMEM. */
MANTA_API manta_status manta_token_create(manta_client *client, const manta_token_opts *opts, char **out_text,
                                          manta_token *out_token, manta_error *e);
/* Those that are good, and those that were; give *out_tokens back by free(). EAUTH, ECONN, ENOMEM. */
MANTA_API manta_status manta_tokens_list(manta_client *client, manta_token **out_tokens, size_t *out_count, manta_error *e);
/* Nobody is let in with it any more, at any head, from when this returns: what its bearers follow or wait for ends. Its jobs go on.
 * Said again, it does nothing. ENOENT, EINVAL (the cluster's own), EAUTH, ECONN. */
MANTA_API manta_status manta_token_revoke(manta_client *client, const char *name, manta_error *e);

/* ---- accounts: what users have spent -------------------------------------------------------------------------------- */

typedef struct manta_account {
    char     user[64];                   /* as manta_job_info; "": nobody of whom anything is known */
    uint64_t day_ms;                     /* when the day began (UTC, since 1970); 0: of all days that were asked for */
    double   cpu_s, gpu_s, memory_gib_s; /* as manta_job_info; also of jobs that are deleted by now */
    double   cost;
    uint64_t reserved[8];
} manta_account;

typedef struct manta_account_opts {
    const char *user;  /* NULL: all */
    uint64_t since_ms; /* from the day (UTC) of that time on, since 1970; 0: all there is. The last 400 days of each user with any
                             are told apart; what was before is in the sum of all alone */
    bool     by_day;   /* a row for each user and day, oldest first */
    uint8_t  reserved_by_day[7];
    uint64_t reserved[8];
} manta_account_opts;

/* What users have spent. Give *out_rows back by free(). opts may be NULL. Blocks for the client's timeout at most. EINVAL (a
 * reserved field), ECONN, EAUTH, ENOMEM. A user that has spent nothing has no row. */
MANTA_API manta_status manta_account_list(manta_client *client, const manta_account_opts *opts, manta_account **out_rows,
                                          size_t *out_count, manta_error *e);

/* ---- users: how much their shares weigh, and what they may have at a time ------------------------------------------ */

typedef struct manta_user {
    char     name[64];
    double   weight; /* of its share: 1 by default; of two who always want more, one with 2 gets twice as much */
    double   cpus_max, gpus_max, memory_max; /* at a time; below 0: no bound. No bound ends what runs: nothing more starts */
    int64_t  running_max, waiting_max;       /* jobs; below 0: no bound */
    double   cpus, gpus, memory;             /* what its jobs have now, with all that they do on the nodes; up to 10 s old */
    int64_t  running, waiting;
    double   usage; /* CPU-seconds of which others were kept, what was used 7 days ago counted half, and so on */
    double   share; /* usage over weight, as a part of that of all users: who has less comes first among jobs of one priority */
    uint64_t reserved[8];
} manta_user;

/* Sets one or more of a user's: "weight=2", "cpus=16", "gpus=0.5", "memory=64G" (K, M, G, T, or bytes), "running=10",
 * "waiting=none"; all of them or none. `settings` ends with NULL; what is not named stays. The user need not have a token yet.
 * *out_user, which may be NULL, is how it is then. Said again, it does nothing. Blocks for the client's timeout at most. EINVAL
 * (which setting is wrong, and how), EAUTH (the token is not good for admin), EAGAIN (4096 users), EDISK_FULL, ECONN (call it
 * again). */
MANTA_API manta_status manta_user_set(manta_client *client, const char *name, const char *const *settings, manta_user *out_user,
                                      manta_error *e);
/* Those with jobs, usage, a bound or a weight. Give *out_users back by free(). EAUTH, ECONN, ENOMEM. */
MANTA_API manta_status manta_users_list(manta_client *client, manta_user **out_users, size_t *out_count, manta_error *e);

/* Ends the whole cluster: every raylet with its workers, then the head. State and logs stay on the head's disk. */
MANTA_API manta_status manta_cluster_stop(manta_client *client, const char *reason, manta_error *e);

#ifdef __cplusplus
}
#endif
#endif
