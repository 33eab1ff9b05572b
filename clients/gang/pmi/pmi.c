/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi.c - see pmi.h. Owns: the pairs, and what waits to be written.
 */
#include "clients/gang/pmi/pmi.h"

#include "core/base/hash.h"
#include "core/base/machine.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const rank_names[] = {
    [GNG_PMI_STRANGE] = "STRANGE", [GNG_PMI_INSIDE] = "INSIDE", [GNG_PMI_OUTSIDE] = "OUTSIDE", [GNG_PMI_GONE] = "GONE"};
/* Drawn in pmi.h. */
static const uint32_t rank_next[] = {
    [GNG_PMI_STRANGE] = MT_STATE(GNG_PMI_INSIDE) | MT_STATE(GNG_PMI_GONE),
    [GNG_PMI_INSIDE] = MT_STATE(GNG_PMI_OUTSIDE) | MT_STATE(GNG_PMI_GONE),
    [GNG_PMI_OUTSIDE] = MT_STATE(GNG_PMI_GONE),
    [GNG_PMI_GONE] = 0,
};
static const struct mt_machine rank_machine = MT_MACHINE("pmi rank", rank_names, rank_next);

static void rank_set_state(struct gng_pmi_rank *r, enum gng_pmi_rank_state to)
{
    MT_TRANSITION(&rank_machine, r->state, to);
    r->state = to;
}

mt_status gng_pmi_init(struct gng_pmi *p, int first, int local, int size, const char *mapping, const char *space)
{
    *p = (struct gng_pmi){
        .first = first, .local = local, .size = size, .is_alone = local == size, .fault_rank = -1, .fault_code = -1};
    snprintf(p->mapping, sizeof p->mapping, "%s", mapping);
    snprintf(p->space, sizeof p->space, "%s", space);
    p->ranks = calloc((size_t)local, sizeof *p->ranks);
    return p->ranks ? mt_ok() : mt_error(MT_ENOMEM, 0, "serve PMI");
}

void gng_pmi_fini(struct gng_pmi *p)
{
    for (int i = 0; p->ranks && i < p->local; i++)
        mt_buf_fini(&p->ranks[i].out);
    for (size_t i = 0; i < p->pairs.count; i++)
        free(p->pairs.data[i].key);
    free(p->ranks);
    mt_vec_fini(&p->pairs);
    mt_buf_fini(&p->fence);
    *p = (struct gng_pmi){0};
}

static void fault(struct gng_pmi *p, int rank, int code, const char *format, ...) MT_PRINTF(4, 5);
static void fault(struct gng_pmi *p, int rank, int code, const char *format, ...)
{
    va_list args;
    if (p->fault_rank >= 0) /* the first counts */
        return;
    p->fault_rank = rank;
    p->fault_code = code;
    va_start(args, format);
    vsnprintf(p->fault, sizeof p->fault, format, args);
    va_end(args);
}

static void end_fault(struct gng_pmi *p, int rank, const char *text)
{
    p->is_end = p->is_end || p->fault_rank < 0;
    fault(p, rank, -1, "%s", text);
}

/* ---- pairs ---- */

static uint32_t *bucket_of(struct gng_pmi *p, const char *key)
{
    uint64_t hash = mt_hash_text(MT_HASH_START, key);
    return &p->buckets[(hash ^ hash >> 32) % GNG_PMI_BUCKETS];
}

static const char *value_of(struct gng_pmi *p, const char *key)
{
    for (uint32_t at = *bucket_of(p, key); at; at = p->pairs.data[at - 1].next)
        if (strcmp(p->pairs.data[at - 1].key, key) == 0)
            return p->pairs.data[at - 1].value;
    return strcmp(key, "PMI_process_mapping") == 0 ? p->mapping : NULL;
}

static mt_status pair_add(struct gng_pmi *p, const char *key, const char *value)
{
    size_t    size = strlen(key) + 1;
    uint32_t *bucket = bucket_of(p, key);
    char     *text = malloc(size + strlen(value) + 1);
    if (!text)
        return mt_error(MT_ENOMEM, 0, "keep a key");
    memcpy(text, key, size);
    memcpy(text + size, value, strlen(value) + 1);
    mt_status st = mt_vec_push(&p->pairs, (struct gng_pmi_pair){text, text + size, *bucket});
    if (st.code)
        free(text);
    else
        *bucket = (uint32_t)p->pairs.count;
    return st;
}

/* ---- barriers ---- */

static mt_status all_go_on(struct gng_pmi *p)
{
    for (int i = 0; i < p->local; i++) {
        if (!p->ranks[i].waits)
            continue;
        p->ranks[i].waits = false;
        MT_TRY(mt_buf_printf(&p->ranks[i].out, "cmd=barrier_out\n"));
    }
    return mt_ok();
}

/* Do all ranks of this node wait? One that has gone keeps the others waiting for ever: that is its fault. */
static mt_status barrier_look(struct gng_pmi *p)
{
    int waiting = 0, gone = -1;
    for (int i = 0; i < p->local; i++) {
        waiting += p->ranks[i].waits;
        if (p->ranks[i].state == GNG_PMI_GONE || p->ranks[i].state == GNG_PMI_OUTSIDE)
            gone = i;
    }
    if (waiting && gone >= 0)
        end_fault(p, p->first + gone, "ended before MPI_Init or after MPI_Finalize, and others wait for it in MPI");
    if (waiting < p->local || p->wants_fence)
        return mt_ok();
    if (p->is_alone)
        return all_go_on(p);
    p->wants_fence = true;
    for (; p->told < p->pairs.count; p->told++) {
        MT_TRY(mt_buf_append(&p->fence, p->pairs.data[p->told].key, strlen(p->pairs.data[p->told].key) + 1));
        MT_TRY(mt_buf_append(&p->fence, p->pairs.data[p->told].value, strlen(p->pairs.data[p->told].value) + 1));
    }
    return mt_ok();
}

mt_status gng_pmi_fenced(struct gng_pmi *p, mt_view puts)
{
    mt_reader r = mt_reader_of(puts);
    while (r.left) {
        const char    *key = (const char *)r.at;
        const uint8_t *end = memchr(r.at, 0, r.left), *last = end ? memchr(end + 1, 0, r.left - (size_t)(end + 1 - r.at)) : NULL;
        if (!last)
            return mt_error(MT_EPROTO, 0, "read keys of other nodes");
        if (!value_of(p, key))
            MT_TRY(pair_add(p, key, (const char *)end + 1));
        (void)mt_reader_bytes(&r, (size_t)(last + 1 - r.at));
    }
    p->told = p->pairs.count;
    return all_go_on(p);
}

/* ---- lines ---- */

/* The value of `name` in "name=value name=value"; false: there is none, or it is longer than `out`. */
static bool word_of(const char *line, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    for (const char *at = line; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        if (strncmp(at, name, n) != 0 || at[n] != '=')
            continue;
        size_t length = strcspn(at + n + 1, " ");
        if (length >= size)
            return false;
        memcpy(out, at + n + 1, length);
        out[length] = 0;
        return true;
    }
    return false;
}

static mt_status put(struct gng_pmi *p, struct gng_pmi_rank *r, const char *line)
{
    char key[MT_GANG_PMI_KEY_BYTES], value[MT_GANG_PMI_VALUE_BYTES];
    if (!word_of(line, "key", key, sizeof key) || !key[0])
        return mt_buf_printf(&r->out, "cmd=put_result rc=-1 msg=key_missing_or_too_long\n");
    if (!word_of(line, "value", value, sizeof value))
        return mt_buf_printf(&r->out, "cmd=put_result rc=-1 msg=value_missing_or_too_long\n");
    if (value_of(p, key))
        return mt_buf_printf(&r->out, "cmd=put_result rc=-1 msg=duplicate_key_%s\n", key);
    if (p->pairs.count >= MT_GANG_PMI_KEYS_MAX)
        return mt_buf_printf(&r->out, "cmd=put_result rc=-1 msg=too_many_keys\n");
    MT_TRY(pair_add(p, key, value));
    return mt_buf_printf(&r->out, "cmd=put_result rc=0 msg=success\n");
}

static mt_status get(struct gng_pmi *p, struct gng_pmi_rank *r, const char *line)
{
    char        key[MT_GANG_PMI_KEY_BYTES];
    const char *value = word_of(line, "key", key, sizeof key) ? value_of(p, key) : NULL;
    return value ? mt_buf_printf(&r->out, "cmd=get_result rc=0 msg=success value=%s\n", value)
                 : mt_buf_printf(&r->out, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

static mt_status barrier_in(struct gng_pmi *p, struct gng_pmi_rank *r)
{
    r->waits = true;
    return barrier_look(p);
}

/* What a rank may say once it has said init. False: there is no such word. */
static bool inside_take(struct gng_pmi *p, struct gng_pmi_rank *r, const char *word, const char *line, mt_status *st)
{
    if (strcmp(word, "put") == 0)
        *st = put(p, r, line);
    else if (strcmp(word, "get") == 0)
        *st = get(p, r, line);
    else if (strcmp(word, "barrier_in") == 0 && !r->waits)
        *st = barrier_in(p, r);
    else if (strcmp(word, "get_maxes") == 0)
        *st = mt_buf_printf(&r->out, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n", MT_GANG_PMI_NAME_BYTES,
                            MT_GANG_PMI_KEY_BYTES, MT_GANG_PMI_VALUE_BYTES);
    else if (strcmp(word, "get_appnum") == 0)
        *st = mt_buf_printf(&r->out, "cmd=appnum appnum=0\n");
    else if (strcmp(word, "get_my_kvsname") == 0)
        *st = mt_buf_printf(&r->out, "cmd=my_kvsname kvsname=%s\n", p->space);
    else if (strcmp(word, "get_universe_size") == 0)
        *st = mt_buf_printf(&r->out, "cmd=universe_size size=%d\n", p->size);
    else if (strcmp(word, "publish_name") == 0 || strcmp(word, "unpublish_name") == 0 || strcmp(word, "lookup_name") == 0)
        *st = mt_buf_printf(&r->out, "cmd=%.*s_result rc=-1 msg=unsupported\n", (int)strcspn(word, "_"), word);
    else
        return false;
    return true;
}

static mt_status line_take(struct gng_pmi *p, int rank, const char *line)
{
    struct gng_pmi_rank *r = &p->ranks[rank - p->first];
    char                 word[64], code[16];
    mt_status            st = mt_ok();
    bool                 has_word = !r->is_spawning && word_of(line, "cmd", word, sizeof word);
    if (has_word && strcmp(word, "abort") == 0) {
        fault(p, rank, word_of(line, "exitcode", code, sizeof code) ? (int)(strtol(code, NULL, 10) & 0xff) : 1, "called MPI_Abort");
        return st;
    }
    if (has_word && strcmp(word, "init") == 0 && r->state == GNG_PMI_STRANGE) {
        rank_set_state(r, GNG_PMI_INSIDE);
        return mt_buf_printf(&r->out, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    }
    if (has_word && strcmp(word, "finalize") == 0 && r->state == GNG_PMI_INSIDE && !r->waits) {
        rank_set_state(r, GNG_PMI_OUTSIDE);
        return mt_buf_printf(&r->out, "cmd=finalize_ack\n");
    }
    if (has_word && r->state == GNG_PMI_INSIDE && inside_take(p, r, word, line, &st))
        return st;
    if (r->is_spawning && strcmp(line, "endcmd") == 0) {
        r->is_spawning = false;
        return mt_buf_printf(&r->out, "cmd=spawn_result rc=-1 msg=unsupported\n");
    }
    if (!r->is_spawning && r->state == GNG_PMI_INSIDE && strncmp(line, "mcmd=spawn", 10) == 0)
        r->is_spawning = true;
    if (r->is_spawning)
        return st;
    fault(p, rank, -1, "said on its PMI connection what is no PMI-1 here: \"%.80s\"", line);
    return st;
}

mt_status gng_pmi_take(struct gng_pmi *p, int rank, mt_view bytes)
{
    struct gng_pmi_rank *r = &p->ranks[rank - p->first];
    for (size_t i = 0; i < bytes.size && p->fault_rank != rank && r->state != GNG_PMI_GONE; i++) {
        char byte = (char)bytes.data[i];
        if (byte == '\n') {
            r->line[r->line_size] = 0;
            r->line_size = 0;
            MT_TRY(line_take(p, rank, r->line));
        } else if (byte == 0 || r->line_size + 1 == sizeof r->line) {
            fault(p, rank, -1, "said on its PMI connection what is no PMI-1: a line of more than %d bytes, or a zero byte",
                  MT_GANG_PMI_LINE_BYTES - 1);
        } else {
            r->line[r->line_size++] = byte;
        }
    }
    return mt_ok();
}

mt_status gng_pmi_end(struct gng_pmi *p, int rank)
{
    struct gng_pmi_rank *r = &p->ranks[rank - p->first];
    bool                 was_inside = r->state == GNG_PMI_INSIDE;
    if (r->state == GNG_PMI_GONE)
        return mt_ok();
    rank_set_state(r, GNG_PMI_GONE);
    r->waits = false;
    if (was_inside)
        end_fault(p, rank, "ended without MPI_Finalize");
    return barrier_look(p);
}
