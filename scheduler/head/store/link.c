/* SPDX-License-Identifier: Apache-2.0
 *
 * link.c - see link.h.
 */
#include "scheduler/head/store/link.h"

#include "core/base/release.h"
#include "core/ds/vec.h"
#include "scheduler/head/store/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef MT_VEC(mt_view) view_list;

mt_status head_link_open(struct head_link *link, const char *url, const char *auth_file, bool may_lose)
{
    static const char *const names[] = {"head", "records", "lock", "past"};
    char                     text[RDS_TEXT_SIZE] = "";
    link->rds = RDS_NONE;
    link->auth_file = auth_file;
    link->may_lose = may_lose;
    link->schema = head_schema_after(0);
    mt_status st = rds_place_read(url, &link->place, text);
    if (st.code != 0)
        snprintf(link->text, sizeof link->text, "--store: %s", text);
    for (size_t i = 0; i < 4; i++) /* the braces: one slot of a Redis Cluster has all of them */
        snprintf(link->keys[i], sizeof link->keys[i], "manta:{%s}:%s", link->place.cluster, names[i]);
    return st;
}

const char *head_word_text(enum head_word word)
{
    switch (word) {
#define X(name, text) \
    case HEAD_WORD_##name: return text;
        HEAD_WORDS(X)
#undef X
    case HEAD_WORD_NONE: break;
    }
    return "it gave no answer";
}

static mt_status told(struct head_link *link, mt_status st, const char *advice)
{
    if (st.code != 0)
        snprintf(link->text, sizeof link->text, "%s: %s%s%s", link->place.shown, link->rds.text, advice[0] ? ": " : "", advice);
    return st;
}

static const char *advice(int32_t code)
{
    switch (code) {
    case MT_EAUTH: return "name a file with the password by --store-auth";
    case MT_EDISK_FULL: return "raise its maxmemory, or make room";
    case MT_EUNSUPPORTED: return "a server of Redis 6.2 or later is wanted, not a Redis Cluster";
    case MT_EINVAL: return "another --store may be meant, or another cluster's name in it";
    default: return "";
    }
}

/* ---- a server that keeps what it acknowledges ---- */

static mt_status setting(struct head_link *link, const char *name, char *out, size_t size)
{
    struct rds_reply *reply = NULL;
    mt_view           args[] = {mt_view_text("CONFIG"), mt_view_text("GET"), mt_view_text(name)};
    MT_TRY(rds_call(&link->rds, args, 3, HEAD_LINK_MS, &reply));
    snprintf(out, size, "%s", (const char *)rds_text(rds_item(reply, 1)).data);
    rds_reply_free(reply);
    return mt_ok();
}

static mt_status unsafe(struct head_link *link, const char *why)
{
    rds_hang_up(&link->rds);
    snprintf(link->text, sizeof link->text, "%s may lose what the head has acknowledged: %s; or say --store-may-lose",
             link->place.shown, why);
    return mt_error(MT_EDEVICE, 0, "use a store that keeps what it acknowledges");
}

static mt_status check_keeps(struct head_link *link)
{
    char only[16], sync[16], most[24], policy[24];
    if (link->may_lose)
        return mt_ok();
    mt_status st = setting(link, "appendonly", only, sizeof only);
    if (st.code == 0)
        st = setting(link, "appendfsync", sync, sizeof sync);
    if (st.code == 0)
        st = setting(link, "maxmemory", most, sizeof most);
    if (st.code == 0)
        st = setting(link, "maxmemory-policy", policy, sizeof policy);
    if (st.code == MT_EAUTH || st.code == MT_EUNSUPPORTED || st.code == MT_EINVAL)
        return unsafe(link, "its settings can't be read (CONFIG GET is not allowed)");
    MT_TRY(told(link, st, ""));
    if (strcmp(only, "yes") != 0)
        return unsafe(link, "set \"appendonly yes\" and \"appendfsync always\"");
    if (strcmp(sync, "always") != 0)
        return unsafe(link, "set \"appendfsync always\"");
    if (strcmp(most, "0") != 0 && strncmp(policy, "allkeys", 7) == 0)
        return unsafe(link, "set \"maxmemory-policy noeviction\"");
    return mt_ok();
}

static mt_status load_script(struct head_link *link)
{
    struct rds_reply *reply = NULL;
    mt_view           args[] = {mt_view_text("SCRIPT"), mt_view_text("LOAD"), mt_view_text(head_store_script)};
    mt_status         st = rds_call(&link->rds, args, 3, HEAD_LINK_MS, &reply);
    if (st.code == 0)
        snprintf(link->sha, sizeof link->sha, "%s", (const char *)rds_text(reply).data);
    rds_reply_free(reply);
    return told(link, st, advice(st.code));
}

static mt_status dial(struct head_link *link)
{
    mt_status st = rds_dial(&link->rds, &link->place, link->auth_file, HEAD_LINK_MS);
    MT_TRY(told(link, st, advice(st.code)));
    st = load_script(link); /* first: a server without its password set is known by it */
    if (st.code == 0)
        st = check_keeps(link);
    if (st.code != 0)
        rds_hang_up(&link->rds);
    return st;
}

/* ---- a request ---- */

struct numbers {
    char fence[24], run[24], seq[24], digest[24];
};

static void write_numbers(struct numbers *n, const struct head_position *at)
{
    snprintf(n->fence, sizeof n->fence, "%" PRIu64, at->fence);
    snprintf(n->seq, sizeof n->seq, "%" PRIu64, at->seq);
    snprintf(n->digest, sizeof n->digest, "%016" PRIx64, at->digest);
    n->run[0] = '\0';
    if (at->run != 0)
        snprintf(n->run, sizeof n->run, "%016" PRIx64, at->run);
}

/* What the arguments of a request point at. */
struct texts {
    struct numbers at, was;
    char           schema[12], oldest[8], newest[8];
};

static mt_status pack_records(view_list *args, const struct head_ask *ask)
{
    const struct head_item *item = ask->kind == HEAD_ASK_APPLY ? ask->changes : ask->all ? head_shelf_next(ask->all, NULL) : NULL;
    for (; item; item = ask->kind == HEAD_ASK_APPLY ? item->next : head_shelf_next(ask->all, item)) {
        MT_TRY(mt_vec_push(args, item->field));
        MT_TRY(mt_vec_push(args, item->value));
    }
    return mt_ok();
}

static mt_status pack(const struct head_link *link, const struct head_ask *ask, struct texts *t, view_list *args)
{
    static const char *const ops[] = {
        [HEAD_ASK_LOOK] = "LOOK",   [HEAD_ASK_LEAD] = "LEAD",       [HEAD_ASK_LOAD] = "LOAD",   [HEAD_ASK_KEEP] = "KEEP",
        [HEAD_ASK_APPLY] = "APPLY", [HEAD_ASK_REWRITE] = "REWRITE", [HEAD_ASK_LEAVE] = "LEAVE",
    };
    static char ttl[] = "2000";
    static_assert(HEAD_LOCK_MS == 2000, "as ttl says");
    write_numbers(&t->at, &ask->at);
    write_numbers(&t->was, &ask->was);
    if (ask->kind == HEAD_ASK_LEAD)
        snprintf(t->at.seq, sizeof t->at.seq, "%d", ask->may_make);
    snprintf(t->schema, sizeof t->schema, "%u", link->schema);
    snprintf(t->oldest, sizeof t->oldest, "%u", mt_release.schema.min);
    snprintf(t->newest, sizeof t->newest, "%u", mt_release.schema.max);
    const char *const fixed[] = {"EVALSHA",
                                 link->sha,
                                 "4",
                                 link->keys[0],
                                 link->keys[1],
                                 link->keys[2],
                                 link->keys[3],
                                 ops[ask->kind],
                                 t->schema,
                                 ask->cluster ? ask->cluster : "",
                                 t->at.fence,
                                 t->at.run,
                                 t->at.seq,
                                 t->at.digest,
                                 t->was.fence,
                                 t->was.run,
                                 t->was.seq,
                                 t->was.digest,
                                 link->me,
                                 ttl,
                                 ask->new_cluster ? ask->new_cluster : "",
                                 ask->place ? ask->place : "",
                                 t->oldest,
                                 t->newest,
                                 mt_release.name};
    MT_TRY(mt_vec_reserve(args, sizeof fixed / sizeof *fixed));
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        MT_TRY(mt_vec_push(args, mt_view_text(fixed[i])));
    return pack_records(args, ask);
}

/* ---- its answer ---- */

static uint64_t read_number(const struct rds_reply *item, int base)
{
    return strtoull((const char *)rds_text(item).data, NULL, base);
}

static enum head_word read_word(mt_view text)
{
    static const char *const names[] = {[HEAD_WORD_NONE] = "",
#define X(name, text) [HEAD_WORD_##name] = #name,
                                        HEAD_WORDS(X)
#undef X
    };
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        if (mt_view_equal(text, mt_view_text(names[i])))
            return (enum head_word)i;
    return HEAD_WORD_NONE;
}

static mt_status unpack(struct head_link *link, const struct rds_reply *reply, struct head_said *said,
                        struct head_link_reader *reader)
{
    *said = (struct head_said){.word = read_word(rds_text(rds_item(reply, 0)))};
    snprintf(said->cluster, sizeof said->cluster, "%s", (const char *)rds_text(rds_item(reply, 1)).data);
    said->at.fence = read_number(rds_item(reply, 2), 10);
    said->at.run = read_number(rds_item(reply, 3), 16);
    said->at.seq = read_number(rds_item(reply, 4), 10);
    said->at.digest = read_number(rds_item(reply, 5), 16);
    snprintf(said->holder, sizeof said->holder, "%s", (const char *)rds_text(rds_item(reply, 6)).data);
    snprintf(said->place, sizeof said->place, "%s", (const char *)rds_text(rds_item(reply, 7)).data);
    said->schema = (uint32_t)read_number(rds_item(reply, 8), 10);
    snprintf(said->release, sizeof said->release, "%s", (const char *)rds_text(rds_item(reply, 9)).data);
    if (said->word == HEAD_WORD_NONE || rds_count(reply) < 10) {
        snprintf(link->rds.text, sizeof link->rds.text, "it gave an answer that no script of ours gives");
        return told(link, mt_error(MT_EPROTO, 0, "read an answer of the store"), "");
    }
    if (said->word == HEAD_WORD_SCHEMA)
        return head_schema_check(link->place.shown, said->schema, said->release, link->text, sizeof link->text);
    link->schema = head_schema_after(said->schema);
    const struct rds_reply *records = rds_item(reply, 10);
    for (size_t i = 0; reader && i + 1 < rds_count(records); i += 2)
        MT_TRY(reader->record(reader, rds_text(rds_item(records, i)), rds_text(rds_item(records, i + 1))));
    const struct rds_reply *past = rds_item(reply, 11);
    for (size_t i = 0; reader && i < rds_count(past); i++) {
        char    *digest;
        uint64_t seq = strtoull((const char *)rds_text(rds_item(past, i)).data, &digest, 10);
        if (*digest == ':')
            reader->past(reader, seq, strtoull(digest + 1, NULL, 16));
    }
    return mt_ok();
}

mt_status head_link_ask(struct head_link *link, const struct head_ask *ask, struct head_said *said, struct head_link_reader *reader)
{
    struct texts      texts;
    view_list         args = {0};
    struct rds_reply *reply = NULL;
    bool              is_long = ask->kind == HEAD_ASK_LOAD || ask->kind == HEAD_ASK_REWRITE;
    link->text[0] = '\0';
    if (link->rds.fd < 0)
        MT_TRY(dial(link));
    mt_status st = pack(link, ask, &texts, &args);
    if (st.code == 0)
        st = rds_call(&link->rds, args.data, args.count, is_long ? HEAD_LINK_LOAD_MS : HEAD_LINK_MS, &reply);
    if (st.code == MT_ENOENT && load_script(link).code == 0) /* the server has begun anew behind a proxy, or SCRIPT FLUSH */
        st = rds_call(&link->rds, args.data, args.count, HEAD_LINK_MS, &reply);
    mt_vec_fini(&args);
    st = told(link, st, advice(st.code));
    if (st.code == 0)
        st = unpack(link, reply, said, reader);
    rds_reply_free(reply);
    return st;
}

/* ---- room ---- */

static uint64_t info_number(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

uint64_t head_link_room(struct head_link *link)
{
    struct rds_reply *reply = NULL;
    uint64_t          room = UINT64_MAX;
    if (link->rds.fd < 0 ||
        rds_call(&link->rds, (mt_view[]){mt_view_text("INFO"), mt_view_text("memory")}, 2, HEAD_LINK_MS, &reply).code != 0)
        return room;
    const char *text = (const char *)rds_text(reply).data;
    uint64_t    most = info_number(text, "\nmaxmemory:"), used = info_number(text, "\nused_memory:");
    if (most > 0)
        room = most > used ? most - used : 0;
    rds_reply_free(reply);
    return room;
}
