/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - see options.h. Owns nothing. Thread: main, before the loop.
 */
#include "scheduler/head/shell/options.h"

#include "core/text/address.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: manta-head --dir DIR [options]\n"
    "  --dir DIR            runtime folder (mode 0700, made if missing); head.addr is written there\n"
    "  --state DIR          what must survive: database, uploaded files, logs; default: DIR/state\n"
    "  --logs DIR           jobs' output, on a disk of its own; default: STATE/logs\n"
    "  --listen HOST:PORT   default 127.0.0.1:0 (a free port); an address that is not loopback turns TLS on\n"
    "  --tls-dir DIR        turns TLS on; certificates there are used (head.pem, node.pem), missing ones made; default: DIR/tls\n"
    "  --insecure           no TLS beyond loopback: the token and all data travel in clear\n"
    "  --token-file FILE    the cluster token (mode 0600), made if missing; default: DIR/token\n"
    "  --store URL          keep that state in Redis instead: redis://HOST:PORT/0?cluster=NAME, redis+unix:///PATH?cluster=NAME,\n"
    "                       redis+sentinel://HOST:PORT,HOST:PORT/MASTER?cluster=NAME\n"
    "  --store-auth FILE    its password (mode 0600), read at each connection\n"
    "  --store-may-lose     take a server that may lose what it has acknowledged (not \"appendfsync always\")\n"
    "  --standby            another head leads the cluster of that store: stand by, and lead when it is gone. Wants the cluster's "
    "token,\n"
    "                       and beyond loopback the files of its --tls-dir\n"
    "  --cluster ID         refuse the state of any other cluster\n"
    "  --blob-bytes N       space for uploaded files; default: no bound\n"
    "  --ready-fd N         one line with the address is written there when the head serves\n"
    "  --backup FILE        no head: write the state of --state, or of --store, into a new file\n"
    "  --restore FILE       no head: make that state from the file; what is there is refused\n"
    "  --replace            with --restore: keep what --state has beside, as state.db.old\n"
    "  --check FILE         no head: is the file whole? And with --state or --store: does nothing differ?\n"
    "  --watch-fd N         a private cluster: when this descriptor's other end closes, the head ends and removes its files\n";

enum option_number {
    OPT_DIR = 1,
    OPT_STATE,
    OPT_LISTEN,
    OPT_TOKEN,
    OPT_CLUSTER,
    OPT_BLOB_BYTES,
    OPT_READY,
    OPT_WATCH,
    OPT_TLS_DIR,
    OPT_INSECURE,
    OPT_LOGS,
    OPT_STORE,
    OPT_STORE_AUTH,
    OPT_STORE_MAY_LOSE,
    OPT_STANDBY,
    OPT_BACKUP,
    OPT_RESTORE,
    OPT_REPLACE,
    OPT_CHECK,
    OPT_HELP
};

static const struct option option_table[] = {
    {"dir", 1, NULL, OPT_DIR},
    {"state", 1, NULL, OPT_STATE},
    {"listen", 1, NULL, OPT_LISTEN},
    {"token-file", 1, NULL, OPT_TOKEN},
    {"cluster", 1, NULL, OPT_CLUSTER},
    {"blob-bytes", 1, NULL, OPT_BLOB_BYTES},
    {"ready-fd", 1, NULL, OPT_READY},
    {"watch-fd", 1, NULL, OPT_WATCH},
    {"tls-dir", 1, NULL, OPT_TLS_DIR},
    {"insecure", 0, NULL, OPT_INSECURE},
    {"logs", 1, NULL, OPT_LOGS},
    {"store", 1, NULL, OPT_STORE},
    {"store-auth", 1, NULL, OPT_STORE_AUTH},
    {"store-may-lose", 0, NULL, OPT_STORE_MAY_LOSE},
    {"standby", 0, NULL, OPT_STANDBY},
    {"backup", 1, NULL, OPT_BACKUP},
    {"restore", 1, NULL, OPT_RESTORE},
    {"replace", 0, NULL, OPT_REPLACE},
    {"check", 1, NULL, OPT_CHECK},
    {"help", 0, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static bool number(const char *text, unsigned long long max, unsigned long long *out)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && *out <= max;
}

static bool read_listen(struct head_options *o, const char *text)
{
    const char        *port_text;
    unsigned long long port = 0;
    if (!mt_address_split(text, o->host, sizeof o->host, &port_text) || !number(port_text, 65535, &port))
        return false;
    o->port = (uint16_t)port;
    return true;
}

static bool take_copy(struct head_options *o, enum head_copy_verb verb, const char *file)
{
    bool is_first = o->copy.verb == HEAD_COPY_NONE;
    o->copy.verb = verb;
    o->copy.file = file;
    return is_first;
}

static bool take(struct head_options *o, int option, const char *value)
{
    unsigned long long n = 0;
    switch (option) {
    case OPT_DIR: o->dir = value; return true;
    case OPT_STATE: o->state = value; return true;
    case OPT_LOGS: o->logs = value; return true;
    case OPT_TOKEN: o->token_file = value; return true;
    case OPT_TLS_DIR: o->tls_dir = value; return true;
    case OPT_INSECURE: return o->is_insecure = true;
    case OPT_CLUSTER: o->cluster = value; return strlen(value) > 0 && strlen(value) < 40;
    case OPT_LISTEN: return read_listen(o, value);
    case OPT_BLOB_BYTES: return number(value, INT64_MAX, &n) && (o->blob_bytes_max = n, true);
    case OPT_STORE: o->store = value; return true;
    case OPT_STORE_AUTH: o->store_auth = value; return true;
    case OPT_STORE_MAY_LOSE: return o->store_may_lose = true;
    case OPT_STANDBY: return o->is_standby = true;
    case OPT_BACKUP: return take_copy(o, HEAD_COPY_BACKUP, value);
    case OPT_RESTORE: return take_copy(o, HEAD_COPY_RESTORE, value);
    case OPT_CHECK: return take_copy(o, HEAD_COPY_CHECK, value);
    case OPT_REPLACE: return o->copy.may_replace = true;
    case OPT_READY: return number(value, 1 << 20, &n) && (o->ready_fd = (int)n, true);
    case OPT_WATCH: return number(value, 1 << 20, &n) && (o->watch_fd = (int)n, true);
    default: return false;
    }
}

/* What can't be meant; NULL: nothing. */
static const char *contradiction(const struct head_options *o)
{
    if (o->tls_dir && o->is_insecure)
        return "--tls-dir and --insecure say opposite things";
    if (o->store && o->watch_fd >= 0)
        return "--store is for a cluster that outlives its driver";
    if (o->is_standby && !o->store)
        return "--standby wants the --store that the heads share";
    if (!o->store && (o->store_auth || o->store_may_lose))
        return "--store-auth and --store-may-lose go with --store";
    if (o->copy.verb == HEAD_COPY_BACKUP && !o->state && !o->store)
        return "--backup wants --state or --store: whose state is meant";
    if (o->copy.verb == HEAD_COPY_RESTORE && !o->state)
        return "--restore wants --state: the folder of the head that is to go on with it";
    if (o->copy.may_replace && o->copy.verb != HEAD_COPY_RESTORE)
        return "--replace goes with --restore";
    return NULL;
}

mt_status head_options_read(int argc, char **argv, struct head_options *out)
{
    *out = (struct head_options){.host = "127.0.0.1", .ready_fd = -1, .watch_fd = -1};
    for (int option; (option = getopt_long(argc, argv, "", option_table, NULL)) != -1;) {
        if (option == OPT_HELP) {
            fputs(usage, stdout);
            return mt_error(MT_ENOENT, 0, "help");
        }
        if (option == '?' || !take(out, option, optarg)) {
            fprintf(stderr, "manta-head: bad option or value: %s (see: manta-head --help)\n", argv[optind - 1]);
            return mt_error(MT_EINVAL, 0, "options");
        }
    }
    const char *wrong = contradiction(out);
    if (wrong) {
        fprintf(stderr, "manta-head: %s\n", wrong);
        return mt_error(MT_EINVAL, 0, "options");
    }
    if (out->copy.verb)
        out->copy.store = (struct head_store_redis){.url = out->store,
                                                    .auth_file = out->store_auth,
                                                    .may_lose = out->store_may_lose,
                                                    .cluster = out->cluster,
                                                    .dir = out->state};
    if (optind == argc && (out->dir || out->copy.verb))
        return mt_ok();
    fprintf(stderr, optind < argc ? "manta-head: unexpected argument \"%s\"\n" : "manta-head: --dir is missing%s\n",
            optind < argc ? argv[optind] : "");
    fputs(usage, stderr);
    return mt_error(MT_EINVAL, 0, "options");
}
