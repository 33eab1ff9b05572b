/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-provider: starts and ends nodes for the head, which speaks to it in lines of JSON (docs/design/scaler.md).
 *
 *   manta-provider local      raylets on this machine, each a process of its own that outlives the head
 *   manta-provider command    three scripts of the user's: list, launch, terminate
 *   manta-provider ssh        raylets on other machines, by ssh
 *   manta-provider slurm      batch jobs of Slurm
 *   manta-provider kubernetes  pods
 *
 * Owns: nothing that outlives main, but the nodes. Thread: main. A request is carried out when it comes, one after another;
 * launches of which the head says that more follow are gathered where the provider starts several at once. Any other request ends
 * that, so nothing waits for one that does not come; and where the head ends, what was gathered was never begun.
 */
#include "scheduler/provider/provider.h"

#include "core/text/json.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct cluster cluster; /* as the head has said */

/* ---- a request, read ---- */

static mt_status text(struct mt_json *json, mt_buf *scratch, char *out, size_t size)
{
    MT_TRY(mt_json_text(json, scratch));
    snprintf(out, size, "%s", (const char *)scratch->data);
    return strlen((const char *)scratch->data) < size ? mt_ok() : mt_error(MT_EINVAL, 0, "a text is too long");
}

/* An object of texts or numbers, as "name" and what stands behind the colon. */
static mt_status pairs(struct mt_json *json, mt_buf *scratch, struct pairs *out)
{
    bool      first = true;
    mt_status st = mt_ok();
    out->count = 0;
    MT_TRY(mt_json_take(json, '{'));
    while (mt_json_more(json, '}', &first, &st)) {
        struct mt_literal literal;
        struct pair      *p = &out->items[out->count];
        if (out->count == PAIRS_MAX)
            return mt_error(MT_EINVAL, 0, "too many settings");
        MT_TRY(text(json, scratch, p->name, sizeof p->name));
        MT_TRY(mt_json_take(json, ':'));
        MT_TRY(mt_json_literal(json, scratch, &literal));
        if (literal.kind == MT_LITERAL_TEXT)
            snprintf(p->value, sizeof p->value, "%s", literal.text);
        else if (literal.kind == MT_LITERAL_REAL)
            snprintf(p->value, sizeof p->value, "%g", literal.real);
        else
            snprintf(p->value, sizeof p->value, "%lld", (long long)literal.integer);
        out->count++;
    }
    return st;
}

static mt_status member(struct mt_json *json, mt_buf *scratch, const char *name, struct request *r)
{
    const struct {
        const char *name;
        char       *out;
        size_t      size;
    } texts[] = {{"op", r->op, sizeof r->op},
                 {"id", r->id, sizeof r->id},
                 {"type", r->type, sizeof r->type},
                 {"labels", r->labels, sizeof r->labels},
                 {"handle", r->handle, sizeof r->handle},
                 {"join", r->join, sizeof r->join},
                 {"cluster", cluster.id, sizeof cluster.id},
                 {"head_file", cluster.head_file, sizeof cluster.head_file}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].name, name) == 0)
            return text(json, scratch, texts[i].out, texts[i].size);
    if (strcmp(name, "number") == 0)
        return mt_json_u64(json, &r->number);
    if (strcmp(name, "learn") == 0)
        return mt_json_bool(json, scratch, &r->learns);
    if (strcmp(name, "boot_s") == 0)
        return mt_json_u64(json, &r->boot_s);
    if (strcmp(name, "more") == 0)
        return mt_json_u64(json, &r->more);
    if (strcmp(name, "resources") == 0)
        return pairs(json, scratch, &r->resources);
    if (strcmp(name, "settings") == 0)
        return pairs(json, scratch, strcmp(r->op, "configure") == 0 ? &cluster.settings : &r->settings);
    return mt_json_skip(json); /* of a newer head */
}

static mt_status request_read(mt_view line, mt_buf *scratch, struct request *out)
{
    struct mt_json json = mt_json_of(line);
    char           name[32];
    bool           first = true;
    mt_status      st = mt_ok();
    memset(out, 0, sizeof *out);
    MT_TRY(mt_json_take(&json, '{'));
    while (mt_json_more(&json, '}', &first, &st)) {
        MT_TRY(text(&json, scratch, name, sizeof name));
        MT_TRY(mt_json_take(&json, ':'));
        MT_TRY(member(&json, scratch, name, out));
    }
    return st;
}

/* ---- answers ---- */

static void answer(const struct request *r, bool is_ok, const struct said *said)
{
    mt_buf    line = {0};
    mt_status st = mt_buf_printf(&line, "{\"op\":\"%s\",\"number\":%llu,\"ok\":%s,\"text\":", r->op, (unsigned long long)r->number,
                                 is_ok ? "true" : "false");
    if (st.code == 0)
        st = mt_json_put_text(&line, said->text);
    if (st.code == 0)
        st = mt_buf_printf(&line, ",\"handle\":");
    if (st.code == 0)
        st = mt_json_put_text(&line, said->handle);
    if (st.code == 0 && strcmp(r->op, "list") == 0)
        st = mt_buf_printf(&line, ",\"instances\":[%.*s]", (int)said->listed.size, (const char *)said->listed.data);
    if (st.code == 0)
        st = mt_buf_printf(&line, "}\n");
    if (st.code != 0 || fwrite(line.data, 1, line.size, stdout) != line.size || fflush(stdout) != 0)
        exit(1); /* the head starts another */
    mt_buf_fini(&line);
}

/* ---- launches that are carried out at once: of one type ---- */

static struct request gathered[TOGETHER_MAX];
static size_t         gathered_count;

static void launch_gathered(const struct provider *p)
{
    static struct said said[TOGETHER_MAX];
    bool               ok[TOGETHER_MAX] = {false};
    if (gathered_count == 0)
        return;
    memset(said, 0, sizeof said);
    p->launch_all(&cluster, gathered, gathered_count, said, ok);
    for (size_t i = 0; i < gathered_count; i++) {
        answer(&gathered[i], ok[i], &said[i]);
        explicit_bzero(gathered[i].join, sizeof gathered[i].join);
    }
    gathered_count = 0;
}

static void gather(const struct provider *p, const struct request *r)
{
    if (gathered_count > 0 && strcmp(gathered[0].type, r->type) != 0)
        launch_gathered(p);
    gathered[gathered_count++] = *r;
    if (r->more == 0 || gathered_count >= p->together(&cluster, r) || gathered_count == TOGETHER_MAX)
        launch_gathered(p);
}

/* ---- requests ---- */

static void carry_out(const struct provider *p, const struct request *r)
{
    struct said said = {0};
    bool        is_launch = strcmp(r->op, "launch") == 0;
    if (is_launch && p->launch_all) {
        gather(p, r);
        return;
    }
    launch_gathered(p);
    if (is_launch)
        answer(r, p->launch(&cluster, r, &said), &said);
    else if (strcmp(r->op, "terminate") == 0)
        answer(r, p->terminate(&cluster, r, &said), &said);
    else if (strcmp(r->op, "list") == 0)
        answer(r, p->list(&cluster, &said), &said);
    mt_buf_fini(&said.listed);
}

static void take(const struct provider *p, mt_view line)
{
    static struct request r;
    mt_buf                scratch = {0};
    mt_status             st = request_read(line, &scratch, &r);
    if (scratch.size)
        explicit_bzero(scratch.data, scratch.size); /* a ticket was there */
    mt_buf_fini(&scratch);
    if (st.code)
        fprintf(stderr, "manta-provider: a line that can't be read: %s: %.*s\n", st.what, line.size < 200 ? (int)line.size : 200,
                (const char *)line.data);
    else
        carry_out(p, &r);
    explicit_bzero(r.join, sizeof r.join);
}

int main(int argc, char **argv)
{
    static const struct {
        const char            *name;
        const struct provider *provider;
    } kinds[] = {{"local", &provider_local},
                 {"command", &provider_command},
                 {"ssh", &provider_ssh},
                 {"slurm", &provider_slurm},
                 {"kubernetes", &provider_kubernetes}};
    const struct provider *p = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && argc == 2; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            p = kinds[i].provider;
    char  *line = NULL;
    size_t room = 0;
    if (!p) {
        fprintf(stderr, "usage: manta-provider local|command|ssh|slurm|kubernetes\n  the head starts it (manta up); lines of JSON: "
                        "docs/design/scaler.md\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        take(p, mt_view_of(line, (size_t)n));
        explicit_bzero(line, (size_t)n); /* a ticket may be in it */
    }
    free(line);
    return 0;
}
