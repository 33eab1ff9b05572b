/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - scripts of sh, and the command line of a raylet: what a request says of the node, in words that `manta start` and
 *             manta-raylet share.
 *
 * Owns: nothing. Thread: main.
 */
#include "scheduler/provider/provider.h"

#include "core/sys/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void option_add(struct options *o, const char *name, const char *value)
{
    if (!value || o->count + 3 > sizeof o->argv / sizeof *o->argv)
        return;
    o->argv[o->count++] = name;
    o->argv[o->count++] = value;
    o->argv[o->count] = NULL;
}

void script_add(mt_buf *script, const char *text)
{
    if (mt_buf_append(script, text, strlen(text)).code)
        exit(1); /* the head starts another */
}

void script_add_word(mt_buf *script, const char *word)
{
    script_add(script, "'");
    for (const char *c = word; *c; c++) {
        char one[2] = {*c, '\0'};
        script_add(script, *c == '\'' ? "'\\''" : one);
    }
    script_add(script, "'");
}

void script_add_options(mt_buf *script, const struct options *o)
{
    for (size_t i = 0; i < o->count; i++) {
        script_add(script, " ");
        script_add_word(script, o->argv[i]);
    }
}

/* "K=V,..." of the resources that have no option of their own. */
static void others(const struct request *r, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < r->resources.count && used < size; i++) {
        const struct pair *p = &r->resources.items[i];
        if (strcmp(p->name, "CPU") != 0 && strcmp(p->name, "GPU") != 0 && strcmp(p->name, "memory") != 0)
            used += (size_t)snprintf(out + used, size - used, "%s%s=%s", used ? "," : "", p->name, p->value);
    }
}

void options_of(const struct request *r, const char *handle, struct options *o)
{
    const char *cpus = pairs_find(&r->resources, "CPU"), *gpus = pairs_find(&r->resources, "GPU");
    snprintf(o->labels, sizeof o->labels, "%s%s%.60s", r->labels, handle[0] ? ",manta.handle=" : "", handle);
    others(r, o->others, sizeof o->others);
    option_add(o, "--labels", o->labels);
    option_add(o, "--node-name", r->id);
    option_add(o, "--num-cpus", cpus || r->learns ? cpus : "0");
    option_add(o, "--num-gpus", gpus || r->learns ? gpus : "0");
    option_add(o, "--memory", pairs_find(&r->resources, "memory"));
    option_add(o, "--store-memory", pairs_find(&r->settings, "store_memory"));
    option_add(o, "--orphan-after", pairs_find(&r->settings, "orphan_after"));
    option_add(o, "--resources", o->others[0] ? o->others : NULL);
}

const char *manta_there(const char *prefix, char out[FILE_SIZE])
{
    if (!prefix)
        return mt_process_beside("manta", out, FILE_SIZE);
    snprintf(out, FILE_SIZE, "%s/bin/manta", prefix);
    return out;
}
