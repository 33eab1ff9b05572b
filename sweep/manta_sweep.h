/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_sweep.h - hyperparameter sweeps that survive the death of anything.
 *
 * A sweep runs trials: one function, registered before main, with the parameters that a sampler has drawn from a search
 * space. Trials run in actors of the calling driver, over all nodes; an actor serves one trial after the other. What was
 * drawn and what came out stands in the sweep's journal before it has an effect: run the same program again, after any
 * death, and the sweep goes on. What was recorded as finished never runs again; what was under way goes on from its last
 * saved state, or begins again.
 *
 * Conventions are those of manta.h: a struct that is all zero means the defaults, errors go to *e (which may be NULL), the
 * library prints nothing.
 */
#ifndef MANTA_SWEEP_H
#define MANTA_SWEEP_H

#include <manta.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- search space -------------------------------------------------------------------------------------------------- */

/* One parameter. Values of choices are texts; one that reads as a number is a number in
 * JSON and for manta_trial_f64 and _i64. */
enum manta_sweep_axis_kind {
    MANTA_SWEEP_AXIS_END,
    MANTA_SWEEP_AXIS_UNIFORM,     /* a real number, low <= x < high; step > 0: low + k * step <= high */
    MANTA_SWEEP_AXIS_LOG_UNIFORM, /* the same, its logarithm uniform; low > 0 */
    MANTA_SWEEP_AXIS_NORMAL,      /* mean `low`, standard deviation `high`; step > 0: rounded to a multiple of it */
    MANTA_SWEEP_AXIS_LOG_NORMAL,  /* exp of the same */
    MANTA_SWEEP_AXIS_INT,         /* a whole number, low <= x <= high; step > 0: low + k * step only */
    MANTA_SWEEP_AXIS_LOG_INT,     /* the same, its logarithm uniform; low >= 1; no step */
    MANTA_SWEEP_AXIS_CHOICE,      /* one of `values`, without order */
    MANTA_SWEEP_AXIS_ORDINAL,     /* one of `values`, which have this order */
    MANTA_SWEEP_AXIS_GRID,        /* each of `values`: all combinations of all grids, whatever the others draw */
    MANTA_SWEEP_AXIS_CONST        /* always values[0] */
};
typedef struct manta_sweep_axis {
    int                kind;
    const char        *name; /* 1 to 63 of A-Z a-z 0-9 . _ - */
    double             low, high, step;
    const char *const *values; /* ended by NULL */
    const char        *when;   /* it exists only where this holds: "optimizer == adam", "layers in (2, 3)" */
    uint64_t           reserved[4];
} manta_sweep_axis;

/* MANTA_SWEEP_SPACE(MANTA_SWEEP_LOG_UNIFORM("lr", 1e-5, 1e-1), MANTA_SWEEP_INT("width", 16, 512, .when = "model == mlp")) */
#define MANTA_SWEEP_SPACE(...) ((const manta_sweep_axis[]){__VA_ARGS__, {.kind = MANTA_SWEEP_AXIS_END}})
#define MANTA_SWEEP_UNIFORM(...) \
    { \
        .kind = MANTA_SWEEP_AXIS_UNIFORM, .name = __VA_ARGS__ \
    } /* name, low, high [, step] */
#define MANTA_SWEEP_LOG_UNIFORM(...) \
    { \
        .kind = MANTA_SWEEP_AXIS_LOG_UNIFORM, .name = __VA_ARGS__ \
    } /* name, low, high [, step] */
#define MANTA_SWEEP_NORMAL(...) \
    { \
        .kind = MANTA_SWEEP_AXIS_NORMAL, .name = __VA_ARGS__ \
    } /* name, mean, deviation [, step] */
#define MANTA_SWEEP_LOG_NORMAL(...) \
    { \
        .kind = MANTA_SWEEP_AXIS_LOG_NORMAL, .name = __VA_ARGS__ \
    } /* name, mean, deviation [, step] */
#define MANTA_SWEEP_INT(...) \
    { \
        .kind = MANTA_SWEEP_AXIS_INT, .name = __VA_ARGS__ \
    } /* name, low, high [, step] */
#define MANTA_SWEEP_LOG_INT(...) \
    { \
        .kind = MANTA_SWEEP_AXIS_LOG_INT, .name = __VA_ARGS__ \
    } /* name, low, high [, step] */
#define MANTA_SWEEP_VALUES(...) ((const char *const[]){__VA_ARGS__, NULL})
/* MANTA_SWEEP_CHOICE("optimizer", MANTA_SWEEP_VALUES("sgd", "adam"), .when = ...) */
#define MANTA_SWEEP_CHOICE(tag, ...) \
    { \
        .kind = MANTA_SWEEP_AXIS_CHOICE, .name = tag, .values = __VA_ARGS__ \
    }
#define MANTA_SWEEP_ORDINAL(tag, ...) \
    { \
        .kind = MANTA_SWEEP_AXIS_ORDINAL, .name = tag, .values = __VA_ARGS__ \
    }
#define MANTA_SWEEP_GRID(tag, ...) \
    { \
        .kind = MANTA_SWEEP_AXIS_GRID, .name = tag, .values = __VA_ARGS__ \
    }
#define MANTA_SWEEP_CONST(tag, text) \
    { \
        .kind = MANTA_SWEEP_AXIS_CONST, .name = tag, .values = MANTA_SWEEP_VALUES(text) \
    }

/* ---- inside a trial ------------------------------------------------------------------------------------------------ */

/* The running trial, until its function returns. With NULL the calls below change nothing, and give EINVAL, MANTA_TRIAL_STOP, 0, ""
 * or NULL; with one that was kept longer, or never was one, EHANDLE in place of EINVAL. */
typedef struct manta_trial manta_trial;

/* Returns MANTA_OK, or what manta_trial_fail has given. It runs in an actor's process, which may have run other trials. */
typedef manta_status (*manta_trial_fn)(manta_trial *t);

typedef struct manta_trial_entry {
    const char    *name;
    manta_trial_fn run;
    uint64_t       reserved[4];
    uint64_t       library[4]; /* the library's, from the registration on; 0 before */
} manta_trial_entry;

/* MANTA_TRIAL(trial); outside of functions. */
#define MANTA_TRIAL(fn) \
    static manta_trial_entry manta_trial_entry_##fn = {#fn, fn, {0}, {0}}; \
    MANTA_REGISTER_BEFORE_MAIN(trial_##fn) \
    { \
        manta_trial_register(&manta_trial_entry_##fn); \
    } \
    struct manta_trial_entry /* takes the semicolon */

/* Before manta_init in every process. Of two with one name the later one counts. Kept for ever. */
MANTA_API void manta_trial_register(manta_trial_entry *entry);

/* The value of a parameter. Asking for one that the space does not have, or in a type that it is not, fails the trial with
 * its name, whatever the function returns; the value is then 0 or "". A string lives as long as the trial. */
MANTA_API double      manta_trial_f64(manta_trial *t, const char *name);
MANTA_API int64_t     manta_trial_i64(manta_trial *t, const char *name);
MANTA_API const char *manta_trial_str(manta_trial *t, const char *name);
/* Whether the parameter exists in this trial (its `when` holds). */
MANTA_API bool        manta_trial_has(const manta_trial *t, const char *name);
MANTA_API const char *manta_trial_params(const manta_trial *t); /* as a JSON object */

MANTA_API int64_t  manta_trial_number(const manta_trial *t);  /* from 0 */
MANTA_API int      manta_trial_attempt(const manta_trial *t); /* from 0: how often it was tried before */
MANTA_API uint64_t manta_trial_seed(const manta_trial *t);    /* of the sweep's seed and the trial's number */

enum { MANTA_TRIAL_CONTINUE = 0, MANTA_TRIAL_STOP = 1 };
/* Tells a metric at a step; steps rise from report to report. What the sweep is about is the last value of its metric.
 * MANTA_TRIAL_STOP: the trial should return now (the scheduler's word, or somebody's who stops it). Waits for the scheduler's
 * decision where there is one to take, at most as long as the driver lives; else it costs a copy and blocks only where
 * the driver is thousands of reports behind. A metric of another name is recorded. */
MANTA_API int manta_trial_report(manta_trial *t, int64_t step, const char *metric, double value);

/* State for whoever goes on with this trial, or copies it (PBT): copied, not waited for; the newest one counts, from the
 * next report on. `step` is what manta_trial_load returns. EINVAL (more than 2 GiB, step < 0), ENOMEM. */
MANTA_API manta_status manta_trial_save(manta_trial *t, int64_t step, const void *data, size_t size);
/* Copies the state that this trial goes on from, at most `size` bytes, and returns its step; 0: it begins. A state of another
 * size fails the trial. */
MANTA_API int64_t manta_trial_load(manta_trial *t, void *data, size_t size);
/* The same in place, valid as long as the trial; NULL and *out_step 0 where it begins. */
MANTA_API const void *manta_trial_state(manta_trial *t, size_t *out_size, int64_t *out_step);

/* opts.data, in shared memory: one copy on each node. Blocks where it has to come from another. NULL: there is none. */
MANTA_API const void *manta_trial_data(manta_trial *t, size_t *out_size);
/* A folder for files of this trial, made when it is first asked for; NULL: the disk refused. On the trial's node. */
MANTA_API const char *manta_trial_dir(manta_trial *t);

/* Returns MANTA_ETASK for the trial to return: it has failed, and why. */
MANTA_API manta_status manta_trial_fail(manta_trial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- a sweep ------------------------------------------------------------------------------------------------------- */

enum { MANTA_SWEEP_MIN = 0, MANTA_SWEEP_MAX = 1 };

/* A program as trial. In its arguments {NAME} is the value of a parameter, {params} all as one JSON object, {file} the path
 * of a file with the same, {trial} the number; a lone {args} becomes --NAME=VALUE for each. Its environment has MANTA_TRIAL,
 * MANTA_TRIAL_PARAMS (JSON), MANTA_TRIAL_ATTEMPT, MANTA_TRIAL_SEED, MANTA_TRIAL_DIR (a folder of its own, which goes with it if
 * it is empty), MANTA_TRIAL_DONE, MANTA_PARAM_NAME for each, and MANTA_ADDRESS of this cluster. Metrics are its lines of
 * standard output that hold NAME=VALUE pairs alone, or one JSON object of numbers; "step" among them is the step, else they are
 * counted. It fails by its exit status; one that is to stop gets SIGTERM, with all that it has started.
 *
 * Nobody but its parent learns how a program has exited: where that is killed at this moment, the program runs again. One that
 * must not writes its last line of metrics (with its step) into the file MANTA_TRIAL_DONE, by one write or a rename: from then
 * on it is completed, whatever dies and however it exits. manta_report.h and manta_report.py do all this in a line. */
typedef struct manta_sweep_gang {
    int         ranks;           /* how many; 0: nodes times per_node */
    int         nodes, per_node; /* on so many nodes, so many on each; 0: anywhere */
    const char *as;              /* how a rank is told who it is, as `manta run --as` has it; NULL: "none" */
    uint64_t    reserved[8];
} manta_sweep_gang;

typedef struct manta_sweep_command {
    const char *const      *argv;    /* ended by NULL; argv[0] is looked for in PATH */
    const char *const      *env;     /* "NAME=value" with the same replacements, ended by NULL; may be NULL */
    const char             *metrics; /* a file that it writes such lines to, read when it has ended; NULL: standard output */
    const manta_sweep_gang *gang;    /* each trial is a gang (docs/gangs.md): all ranks of the command are started, or none, and
                                      * ended together. The sweep's cpus and gpus are each rank's; memory and resources of one's
                                      * own can't be had. Rank 0's standard output has the metrics. NULL: one process */
    uint64_t                reserved[7];
} manta_sweep_command;

/* A trial that runs: for live tables. */
typedef struct manta_sweep_row {
    int64_t     trial;
    const char *state;  /* "running"; "retried": it had failed before */
    const char *params; /* JSON */
    bool        has_value;
    double      value;   /* the metric's newest */
    int64_t     step;    /* of it */
    double      seconds; /* of this attempt */
    uint64_t    reserved[4];
} manta_sweep_row;

/* What a sweep looks like at a moment. All pointers are valid during the call. */
enum { MANTA_SWEEP_ROWS_MAX = 64 };
typedef struct manta_sweep_progress {
    int64_t                trials; /* wanted; 0: no limit of their number */
    int64_t                running, waiting, paused, completed, stopped, failed, retried;
    int64_t                reports;
    int                    slots;   /* actors that serve trials */
    double                 seconds; /* of this driver */
    bool                   has_best;
    double                 best;
    int64_t                best_trial;
    const char            *best_params; /* JSON */
    const char            *message;     /* what has just happened and people should know; NULL: nothing */
    const manta_sweep_row *rows;        /* trials that run, at most MANTA_SWEEP_ROWS_MAX */
    int                    row_count;
    uint64_t               reserved[16];
} manta_sweep_progress;

typedef struct manta_sweep_opts {
    const char             *name;    /* 1 to 63 of A-Z a-z 0-9 . _ -; NULL: "sweep". Run it again: it resumes */
    const char             *storage; /* folder for the folders of sweeps; NULL: $MANTA_SWEEPS, else ~/.manta/sweeps */
    const char             *metric;
    int                     mode;        /* MANTA_SWEEP_MIN or MANTA_SWEEP_MAX */
    int64_t                 trials;      /* 0: until time_s, or the grid's end */
    double                  time_s;      /* no trial is begun after so long, over all runs; those under way are stopped */
    int                     concurrency; /* trials at a time; 0: as many as the cluster has room for */
    const manta_sweep_axis *space;
    const char *const      *constraints;  /* each must hold: "2*width + depth <= 4096" (linear); ended by NULL; may be NULL */
    const char             *sampler;      /* random (default), grid, sobol, tpe, cmaes, gp; "exec:PROGRAM ARGS": ask and tell over
                                       its standard input and output, docs/sweeps.md */
    const char             *sampler_opts; /* "startup=20,independent": docs/sweeps.md */
    const char             *scheduler;    /* fifo (default), median, asha, asha_promote, hyperband, pbt */
    const char             *scheduler_opts;
    const char             *stop;       /* rules to stop by, "steps,limit=100; trial_plateau,window=6": docs/sweeps.md */
    const char *const      *points;     /* JSON objects, tried first; ended by NULL; may be NULL */
    const char             *importance; /* how parameters are weighed: fanova (default) or ped_anova; may change at a resume */
    const char             *replay; /* "NAME" or "NAME:TRIAL": a trial that changes its parameters when and as that trial (else the
                                       best) of an earlier PBT sweep did, from that one's first point on. Instead of a
                                       scheduler; `trials` is then 1 */
    const char *const      *warm_start; /* names of sweeps whose results the sampler (tpe, cmaes or gp) is told first, whatever the
                                       scheduler; the sampler counts them, the scheduler's rungs and brackets do not */
    double                  cpus;       /* of a trial; 0: 1; -1: none */
    double                  gpus;
    int64_t                 memory;
    const manta_resource   *resources;
    int                     resource_count;
    int                     retries;          /* of a trial that failed; 0: 2; MANTA_NO_RETRY: none */
    double                  trial_timeout_s;  /* of one attempt; then it is killed and counts as failed; 0: none */
    double                  silent_timeout_s; /* ... without a report */
    uint64_t                seed;
    bool                    ordered; /* results reach the sampler in the order of trials, so that, with scheduler fifo, a sweep
                                       is the same whatever is killed, on any number of nodes */
    const void             *data;    /* for manta_trial_data; borrowed */
    size_t                  data_size;
    const manta_sweep_command *command; /* instead of a function: manta_sweep_run's trial is NULL */
    /* Called by the thread that runs the sweep, four times a second at most and at the end. Nonzero: stop, as by
     * manta_sweep_tell(MANTA_SWEEP_STOP). */
    int (*progress)(void *user, const manta_sweep_progress *p);
    void    *user;
    uint64_t reserved[16];
} manta_sweep_opts;

enum { MANTA_SWEEP_PARAMS_MAX = 4096 };
typedef struct manta_sweep_result {
    bool     has_best;
    double   best;
    int64_t  best_trial;
    int64_t  best_step;
    char     params_json[MANTA_SWEEP_PARAMS_MAX]; /* of the best trial; "" where there is none */
    int64_t  trials, completed, stopped, failed;  /* over all runs; trials: begun; stopped: early, by the scheduler or by hand;
                                                    one that has come to the scheduler's max_t is completed */
    int64_t  retried, reports;
    int64_t  finished_before; /* trials that had ended before this run began */
    double   seconds;         /* of this run */
    bool     is_stopped;      /* by hand, by a stopper or by time_s, before all trials were done */
    uint64_t reserved[16];
} manta_sweep_result;

/* Runs the sweep, or goes on with it; blocks until it is done. `trial` is a name given to MANTA_TRIAL.
 * EINVAL: an option, the space, a changed space (which says the difference); ENOFUNC: no such trial; EEXIST: another driver
 * runs this sweep; EUNSCHEDULABLE: no node can ever run such a trial; ETASK: trials fail one after the other (the message is
 * the first one's); EUNSUPPORTED: with MANTA_INLINE=1; ECORRUPT, ESYS: the journal; EDISK_FULL: there was no room for it at
 * the start, or the sweep was stopped while it waited for room; EFORKED, ECONN: libmanta can't be used
 * here (manta.h). What was finished stays so in any case.
 * A disk that becomes full meanwhile is waited for: trials that run go on, none is begun, and `progress` hears of it (message),
 * as of the room that there is again. */
MANTA_API manta_status manta_sweep_run(const char *trial, const manta_sweep_opts *opts, manta_sweep_result *out, manta_error *e);

/* ---- a sweep from outside ------------------------------------------------------------------------------------------- */

enum {
    MANTA_SWEEP_STOP = 1, /* no further trial; those under way are stopped, and go on when the sweep is resumed */
    MANTA_SWEEP_PAUSE,    /* no further trial until MANTA_SWEEP_GO */
    MANTA_SWEEP_GO,
    MANTA_SWEEP_STOP_TRIAL, /* `value`: its number. It counts as stopped, with its last value */
    MANTA_SWEEP_TRIALS,     /* `value`: how many trials there are to be in all */
    MANTA_SWEEP_TIME        /* `value`: seconds in all */
};
/* Leaves a command for the driver of a sweep, from any process that can write the folder. Does not wait. The driver obeys within
 * half a second. If none runs, the one that resumes the sweep obeys, except to a STOP, which is forgotten then.
 * ENOENT: no such sweep; EINVAL; ESYS. */
MANTA_API manta_status manta_sweep_tell(const char *storage, const char *name, int what, int64_t value, manta_error *e);

/* One trial as its journal has it. */
typedef struct manta_sweep_trial {
    int64_t     number;
    const char *state; /* "open" (waits or runs), "completed", "stopped" (early), "failed", "dropped" (never begun) */
    bool        has_value;
    double      value; /* the metric's newest */
    int64_t     step, reports, retries;
    double      drawn_s, ended_s; /* seconds of the sweep; ended_s 0: it has not */
    const char *params;           /* JSON */
    const char *why;              /* it failed, with the end of its log; NULL */
    uint64_t    reserved[8];
} manta_sweep_trial;
typedef struct manta_sweep_report {
    int64_t     trial, step;
    double      at_s, value;
    const char *metric;      /* another than the sweep's; NULL: the sweep's */
    uint64_t    reserved[1]; /* few: there may be a million */
} manta_sweep_report;
/* PBT: `trial` went on as a copy of `from`, with other parameters. */
typedef struct manta_sweep_copy {
    int64_t     trial, from;
    int64_t     step, from_step; /* how far they were: `trial` goes on behind from_step */
    double      at_s;
    const char *before, *after; /* parameters of `trial`, JSON */
    uint64_t    reserved[4];
} manta_sweep_copy;
typedef struct manta_sweep_view {
    const char              *name, *metric, *mode, *sampler, *scheduler, *seed, *trial, *space; /* space: JSON */
    const char              *importance;                                                        /* fanova or ped_anova */
    int64_t                  wanted;                                                            /* trials; 0: no limit */
    bool                     is_running;
    const char              *state; /* "running"; "done"; "stopped" (by hand: resumed, it goes on; by a rule or time_s: with more of
                          that); else "unfinished" */
    double                   seconds;
    int64_t                  drivers; /* that began or resumed it */
    int64_t                  completed, stopped, failed, retried;
    const manta_sweep_trial *trials;
    int64_t                  count, best; /* best: number of a trial; -1: none */
    const manta_sweep_report *reports;    /* in the order in which they came */
    int64_t                   report_count;
    const manta_sweep_copy   *copies; /* the policy that PBT has followed, in the order of time */
    int64_t                   copy_count;
    uint64_t                  reserved[16];
} manta_sweep_view;

/* Reads a sweep, running or not; freed with manta_sweep_view_free, which leaves alone what was freed before or is no view; other
 * calls with such a one are EHANDLE. NULL: *e says why (ENOENT, ECORRUPT, ENOMEM, ESYS). */
MANTA_API manta_sweep_view *manta_sweep_look(const char *storage, const char *name, manta_error *e);
MANTA_API void              manta_sweep_view_free(manta_sweep_view *view);
/* Calls `fn` with the name of each sweep there is, in alphabetical order, until it returns nonzero. Returns how many. */
MANTA_API int manta_sweep_names(const char *storage, int (*fn)(void *user, const char *name), void *user);
/* Writes it: "csv" (a line a trial, a column a parameter), "jsonl" (a line a trial, with its reports), "policy" (a JSON line
 * for each copy that PBT has made), "html" (a page in one file: history, learning curves, parallel coordinates, slices,
 * importance; bounded, and it says what it leaves out).
 * EINVAL: another format, or an argument that is NULL; EDISK_FULL, ESYS. */
MANTA_API manta_status manta_sweep_export(const manta_sweep_view *view, const char *format, FILE *to, manta_error *e);

/* One parameter of a trial. */
enum { MANTA_SWEEP_VALUE_TEXT, MANTA_SWEEP_VALUE_NUMBER, MANTA_SWEEP_VALUE_BOOL };
typedef struct manta_sweep_param {
    const char *name, *text; /* text: the value as it stands in JSON, a string without its quotes */
    int         kind;        /* MANTA_SWEEP_VALUE_ */
    double      number;      /* of a number; 0 or 1 of a bool */
    uint64_t    reserved[4];
} manta_sweep_param;
/* Calls `fn` with each parameter of a trial, in the order of the space, until it returns nonzero, and returns that; -1: no
 * memory, or no JSON. `params`: of a manta_sweep_trial, _row or _progress. */
MANTA_API int manta_sweep_params(const char *params, int (*fn)(void *user, const manta_sweep_param *param), void *user);

typedef struct manta_sweep_weight {
    char     name[64];
    char     other[64]; /* of a pair: the second parameter; "": it is a single one */
    double   weight;    /* of single ones: how much it matters; they sum to 1 */
    double   variance;  /* fanova: the part of the metric's variance over the space that it explains by itself; of a pair:
                         what the two explain beyond that. 0 of ped_anova */
    double   spread;    /* fanova: standard deviation of `variance` from tree to tree */
    uint64_t reserved[8];
} manta_sweep_weight;
typedef struct manta_sweep_importance_opts {
    const char *method; /* "fanova", "ped_anova": docs/sweeps.md; NULL: what the sweep names */
    bool        pairs;  /* fanova: pairs too, behind the single ones */
    uint64_t    reserved[4];
} manta_sweep_importance_opts;
enum { MANTA_SWEEP_WEIGHED_MAX = 10000 }; /* trials that it looks at; of more as many are drawn, by the sweep's seed */
/* How much each parameter with more than one value matters, by the trials that are completed, the most important first.
 * Returns how many, at most `max`, which may cut the list; -1: *e says why (EINVAL: no view, too few results, equal ones, no such
 * method; ENOMEM). opts may be NULL. The same trials give the same numbers. 10,000 trials of 30 parameters: about 2 s and
 * 15 MB; the thread is the caller's. */
MANTA_API int manta_sweep_importance(const manta_sweep_view *view, const manta_sweep_importance_opts *opts, manta_sweep_weight *out,
                                     int max, manta_error *e);

#ifdef __cplusplus
}
#endif
#endif
