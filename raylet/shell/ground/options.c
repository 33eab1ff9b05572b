/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - see options.h. Owns nothing. Thread: main, before the loop.
 */
#include "raylet/shell/ground/options.h"

#include "core/sys/cpus.h"
#include "core/text/amounts.h"
#include "core/text/labels.h"
#include "raylet/files/gpus.h"
#include "core/base/limits/env.h"
#include "core/base/limits/net.h"

#include <getopt.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: manta-raylet --dir DIR [options]\n"
    "  --dir DIR              runtime folder (mode 0700); raylet.sock is made in it\n"
    "  --node-name NAME       default: the machine's name\n"
    "  --head HOST:PORT|none  the head; none: this node is the cluster\n"
    "  --head-file FILE       wait for this file to hold the head's address\n"
    "  --token-file FILE      the cluster token (mode 0600)\n"
    "  --tls-file FILE        turns TLS on: this node's certificate, its key, the authority's certificate (mode 0600);\n"
    "                         default: what the head's file names\n"
    "  --listen HOST:PORT     for other nodes; default 127.0.0.1:0. Beyond loopback only with TLS, or --insecure\n"
    "  --insecure             no TLS beyond loopback: the token and all data travel in clear\n"
    "  --num-cpus N           default: what this process may use\n"
    "  --num-gpus N           default: those found in /dev, of which CUDA_VISIBLE_DEVICES may leave a part\n"
    "  --memory BYTES         for tasks that ask for memory; default: 80% of the machine's\n"
    "  --store-memory BYTES   limit of the object store; default: 30% of the machine's\n"
    "  --job-memory BYTES     of the object store for one job; default: all of it\n"
    "  --job-users NAME|A-B   users that jobs run under (root only): one for all, or a range of uids, one for each job\n"
    "  --job-pids N           of processes and threads of a job in one environment; default: 37 % of all\n"
    "  --cgroup DIR|none      folder of the kernel's control groups (pids of version 1, or version 2) in which this node\n"
    "                         makes one for all that its jobs start; default: this process's own\n"
    "  --spill-dir DIR|none   where values go that have no room; default: $TMPDIR, else /var/tmp\n"
    "  --spill-bytes BYTES    most of them there; default: what the disk has\n"
    "  --resources K=V,...    resources of your own\n"
    "  --labels K=V,...       what tasks and actors may ask for by name\n"
    "  --drain-limit S        after SIGTERM in a cluster: so long may run what is here; default: 30. A second one ends it at once\n"
    "  --until T              seconds since 1970: this machine goes then, and the node leaves --drain-limit before it\n"
    "  --notice-file FILE     the machine goes when this appears: a number of seconds, or a time as 2026-11-23T18:00:00Z, in\n"
    "                         any text; else --drain-limit from then\n"
    "  --orphan-after S       a node that reaches no head for so long, and where nothing runs, leaves; 0: never. Default: 3600 "
    "for\n"
    "                         one that its cluster has started (label manta.instance), else never\n"
    "  --idle-workers N       warm workers kept per job\n"
    "  --max-workers N        processes of tasks and actors; default: 10240, or what the descriptors allow\n"
    "  --max-blocked-workers N  that wait inside a task while others are started in their place; then a task that waits\n"
    "                         for one of its own runs it itself; default: 128\n"
    "  --driver-fd N          a connected driver: the raylet of a private cluster, ends with it\n"
    "  --ready-fd N           one line with the addresses is written there when all is up\n";

enum option_number {
    OPT_DIR = 1,
    OPT_NAME,
    OPT_HEAD,
    OPT_HEAD_FILE,
    OPT_TOKEN,
    OPT_LISTEN,
    OPT_CPUS,
    OPT_GPUS,
    OPT_MEMORY,
    OPT_STORE,
    OPT_JOB_MEMORY,
    OPT_SPILL_DIR,
    OPT_SPILL_BYTES,
    OPT_RESOURCES,
    OPT_IDLE,
    OPT_DRIVER_FD,
    OPT_READY_FD,
    OPT_HELP,
    OPT_WORKERS,
    OPT_BLOCKED,
    OPT_LABELS,
    OPT_JOB_USERS,
    OPT_CGROUP,
    OPT_JOB_PIDS,
    OPT_TLS_FILE,
    OPT_INSECURE,
    OPT_DRAIN,
    OPT_UNTIL,
    OPT_ORPHAN,
    OPT_NOTICE,
};

static const struct option option_table[] = {
    {"dir", 1, NULL, OPT_DIR},
    {"node-name", 1, NULL, OPT_NAME},
    {"head", 1, NULL, OPT_HEAD},
    {"head-file", 1, NULL, OPT_HEAD_FILE},
    {"token-file", 1, NULL, OPT_TOKEN},
    {"listen", 1, NULL, OPT_LISTEN},
    {"num-cpus", 1, NULL, OPT_CPUS},
    {"num-gpus", 1, NULL, OPT_GPUS},
    {"memory", 1, NULL, OPT_MEMORY},
    {"store-memory", 1, NULL, OPT_STORE},
    {"job-memory", 1, NULL, OPT_JOB_MEMORY},
    {"job-users", 1, NULL, OPT_JOB_USERS},
    {"cgroup", 1, NULL, OPT_CGROUP},
    {"job-pids", 1, NULL, OPT_JOB_PIDS},
    {"resources", 1, NULL, OPT_RESOURCES},
    {"idle-workers", 1, NULL, OPT_IDLE},
    {"spill-dir", 1, NULL, OPT_SPILL_DIR},
    {"spill-bytes", 1, NULL, OPT_SPILL_BYTES},
    {"labels", 1, NULL, OPT_LABELS},
    {"max-workers", 1, NULL, OPT_WORKERS},
    {"max-blocked-workers", 1, NULL, OPT_BLOCKED},
    {"drain-limit", 1, NULL, OPT_DRAIN},
    {"until", 1, NULL, OPT_UNTIL},
    {"orphan-after", 1, NULL, OPT_ORPHAN},
    {"notice-file", 1, NULL, OPT_NOTICE},
    {"tls-file", 1, NULL, OPT_TLS_FILE},
    {"insecure", 0, NULL, OPT_INSECURE},
    {"driver-fd", 1, NULL, OPT_DRIVER_FD},
    {"ready-fd", 1, NULL, OPT_READY_FD},
    {"help", 0, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static mt_status add_resource(struct rlt_options *o, const char *name, size_t size, int64_t milli)
{
    if (o->resource_count == MT_RLT_RESOURCES_MAX || size == 0 || size >= sizeof o->resources[0].name || milli < 0)
        return mt_error(MT_EINVAL, 0, "resource");
    if (milli == 0)
        return mt_ok();
    struct ctl_resource *r = &o->resources[o->resource_count++];
    memset(r, 0, sizeof *r);
    memcpy(r->name, name, size);
    r->milli = milli;
    return mt_ok();
}

_Static_assert(MT_AMOUNT_NAME_SIZE == sizeof((struct ctl_resource *)0)->name, "the same names");

static mt_status add_resources(struct rlt_options *o, const char *text)
{
    struct mt_amounts amounts;
    char              wrong[128];
    mt_status         st = mt_amounts_read(text, &amounts, wrong, sizeof wrong);
    if (st.code)
        fprintf(stderr, "manta-raylet: --resources: %s\n", wrong);
    for (uint32_t i = 0; st.code == 0 && i < amounts.count; i++)
        st = add_resource(o, amounts.list[i].name, strlen(amounts.list[i].name), amounts.list[i].milli);
    return st;
}

static bool number(const char *text, double least, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= least && *out <= most;
}

/* What the node has of a resource. */
static bool amount(const char *name, const char *text, double most, double *out)
{
    const char *wrong = number(text, 0, most, out) ? mt_amount_wrong_of_node(name, *out) : NULL;
    if (wrong)
        fprintf(stderr, "manta-raylet: %s \"%s\": %s\n", name, text, wrong);
    return number(text, 0, most, out) && !wrong;
}

/* "nobody", "70000" or "70000-70999"; never root. */
static mt_status users_read(const char *text, struct rlt_users *out)
{
    const struct passwd *user = getpwnam(text);
    char                *end;
    unsigned long        first = strtoul(text, &end, 10), last = first;
    if (geteuid() != 0) {
        fputs("manta-raylet: --job-users: only root can run jobs as somebody else\n", stderr);
        return mt_error(MT_EAUTH, 0, "users");
    }
    if (user && user->pw_uid) {
        *out = (struct rlt_users){user->pw_uid, 1, user->pw_gid, true};
        return mt_ok();
    }
    if (end != text && *end == '-' && end[1] >= '0' && end[1] <= '9')
        last = strtoul(end + 1, &end, 10);
    if (end == text || *end || first == 0 || last < first || last >= UINT32_MAX || last - first >= MT_RLT_USERS_MAX) {
        fprintf(stderr,
                "manta-raylet: --job-users: a user other than root that this machine knows, a uid, or up to %d of them "
                "as FIRST-LAST\n",
                MT_RLT_USERS_MAX);
        return mt_error(MT_EINVAL, 0, "users");
    }
    *out = (struct rlt_users){.first = (uint32_t)first, .count = (uint32_t)(last - first) + 1};
    return mt_ok();
}

struct amounts {
    double cpus, gpus, memory, store, job, spill, idle, workers, blocked, pids, drain, until, orphan;
};

static mt_status read_one(struct rlt_options *o, struct amounts *a, int which, const char *value)
{
    double n = 0;
    bool   good = true;
    char   text[2 * MT_LABELS_BYTES_MAX];
    switch (which) {
    case OPT_DIR: o->dir = value; break;
    case OPT_NAME: o->node_name = value; break;
    case OPT_HEAD: o->head = strcmp(value, "none") ? value : NULL; break;
    case OPT_HEAD_FILE: o->head_file = value; break;
    case OPT_TOKEN: o->token_file = value; break;
    case OPT_LISTEN: o->listen = value; break;
    case OPT_TLS_FILE: o->tls_file = value; break;
    case OPT_INSECURE: o->is_insecure = true; break;
    case OPT_CPUS: good = amount("CPU", value, 4096, &a->cpus); break;
    case OPT_GPUS: good = amount("GPU", value, MT_RLT_GPUS_MAX, &a->gpus); break;
    case OPT_MEMORY: good = amount("memory", value, 1e15, &a->memory); break;
    case OPT_STORE: good = number(value, 1 << 20, 1e15, &a->store); break;
    case OPT_JOB_MEMORY: good = number(value, 1 << 20, 1e15, &a->job); break;
    case OPT_CGROUP: o->cgroup = strcmp(value, "none") ? value : ""; break;
    case OPT_JOB_PIDS: good = number(value, MT_RLT_JOB_PIDS_MIN, 1 << 22, &a->pids); break;
    case OPT_JOB_USERS: return users_read(value, &o->users);
    case OPT_SPILL_DIR: o->spill_dir = strcmp(value, "none") ? value : ""; break;
    case OPT_SPILL_BYTES: good = number(value, 1, 1e18, &a->spill); break;
    case OPT_IDLE: good = number(value, 1, 4096, &a->idle); break;
    case OPT_LABELS:
        good = mt_labels_check(value, text, sizeof text).code == 0;
        o->labels = value;
        if (!good)
            fprintf(stderr, "manta-raylet: %s\n", text);
        break;
    case OPT_DRAIN: good = number(value, 0, MT_DRAIN_MS_MAX / 1000, &a->drain); break;
    case OPT_UNTIL: good = number(value, 1, 1e11, &a->until); break;
    case OPT_ORPHAN: good = number(value, 0, 1e8, &a->orphan); break;
    case OPT_NOTICE: o->notice_file = value; break;
    case OPT_WORKERS: good = number(value, 1, MT_RLT_PROCS_MAX, &a->workers); break;
    case OPT_BLOCKED: good = number(value, 1, MT_RLT_PROCS_MAX, &a->blocked); break;
    case OPT_RESOURCES: return add_resources(o, value);
    case OPT_DRIVER_FD:
        good = number(value, 0, 1 << 20, &n);
        o->driver_fd = (int)n;
        break;
    case OPT_READY_FD:
        good = number(value, 0, 1 << 20, &n);
        o->ready_fd = (int)n;
        break;
    default: return mt_error(MT_EINVAL, 0, "option");
    }
    return good ? mt_ok() : mt_error(MT_EINVAL, 0, "number");
}

static void amounts_default(struct amounts *a)
{
    int    cpus = mt_cpus_allowed();
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    a->cpus = cpus ? cpus : 1;
    a->gpus = rlt_gpus_found("/dev", getenv("CUDA_VISIBLE_DEVICES"));
    a->memory = machine * 0.8;
    a->store = machine * 0.3;
    a->spill = 0;
    a->job = 0;
    a->drain = MT_DRAIN_MS / 1000;
    a->idle = a->workers = a->blocked = a->pids = a->until = 0;
    a->orphan = -1;
}

mt_status rlt_options_read(int argc, char **argv, struct rlt_options *out)
{
    struct amounts a;
    int            which;
    memset(out, 0, sizeof *out);
    out->driver_fd = out->ready_fd = -1;
    out->listen = "127.0.0.1:0";
    out->labels = "";
    out->spill_dir = getenv("TMPDIR") && getenv("TMPDIR")[0] ? getenv("TMPDIR") : "/var/tmp";
    amounts_default(&a);
    while ((which = getopt_long(argc, argv, "", option_table, NULL)) != -1) {
        if (which == OPT_HELP) {
            fputs(usage, stdout);
            return mt_error(MT_ENOENT, 0, "help");
        }
        if (read_one(out, &a, which, optarg).code) {
            fprintf(stderr, "manta-raylet: bad option or value: %s (see: manta-raylet --help)\n", argv[optind - 1]);
            return mt_error(MT_EINVAL, 0, "options");
        }
    }
    if (optind < argc || (!out->dir && out->driver_fd < 0)) {
        fputs(usage, stderr);
        return mt_error(MT_EINVAL, 0, "options");
    }
    out->store_bytes = (uint64_t)a.store;
    out->job_bytes = (uint64_t)a.job;
    out->spill_bytes = (uint64_t)a.spill;
    out->idle_workers_max = (uint32_t)a.idle;
    out->workers_max = (uint32_t)a.workers;
    out->job_pids = (uint64_t)a.pids;
    out->blocked_max = (uint32_t)a.blocked;
    out->drain_ms = (uint64_t)(a.drain * 1000);
    out->until_ms = (uint64_t)(a.until * 1000);
    bool is_started = strstr(out->labels, "manta.instance=") != NULL;
    out->orphan_ms = a.orphan >= 0 ? (uint64_t)(a.orphan * 1000) : is_started ? MT_RLT_ORPHAN_MS : 0;
    MT_TRY(add_resource(out, "CPU", 3, (int64_t)(a.cpus * 1000 + 0.5)));
    MT_TRY(add_resource(out, "GPU", 3, (int64_t)a.gpus * 1000));
    return add_resource(out, "memory", 6, (int64_t)a.memory);
}
