/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - named tokens: who may ask what of the head, beside whoever has the cluster's own.
 *
 *   made --revoked--> refused, in words --the name is given again, or room is needed--> forgotten: refused as any stranger's
 *     '----its end----^
 *
 * Always:  a token is in the store before anybody is let in with it, and its revocation before that is answered; of its text only
 *          the SHA-256 is here. The door of the shell is told with each change; a call that it had let in before is judged again.
 */
#include "scheduler/head/core/trust/trust.h"

#include "core/base/limits/net.h"
#include "core/base/plant.h"

static struct token *find(const struct head *h, const char *name)
{
    struct head_index_node *at = head_index_find(&h->tokens, name);
    return at ? mt_container_of(at, struct token, at) : NULL;
}

static bool has_ended(const struct head *h, const struct token *t)
{
    return t->is_over || (t->ends_ms && h->wall_ms >= t->ends_ms);
}

static bool is_good(const struct head *h, const struct token *t)
{
    return !t->is_revoked && !has_ended(h, t);
}

bool head_tokens_who(const struct head *h, uint64_t number, struct head_who *out)
{
    *out = (struct head_who){MT_ADMIN_NAME, MT_MAY_ADMIN};
    if (number == 0)
        return true;
    for (const struct head_index_node *at = h->tokens.first; at; at = at->next) {
        const struct token *t = mt_container_of(at, struct token, at);
        if (t->number != number)
            continue;
        *out = (struct head_who){t->name, t->right};
        return is_good(h, t);
    }
    return false;
}

/* ---- messages ---- */

/* Borrows all. */
static void fill(const struct head *h, const struct token *t, bool is_list, Manta__V1__Token *out)
{
    *out = (Manta__V1__Token)MANTA__V1__TOKEN__INIT;
    out->name = (char *)(uintptr_t)t->name;
    out->right = t->right;
    out->sha256 = (ProtobufCBinaryData){is_list ? 8 : HEAD_SHA_SIZE, (uint8_t *)(uintptr_t)t->sha256};
    out->made_ms = t->made_ms;
    out->ends_ms = t->ends_ms;
    out->is_revoked = t->is_revoked;
    out->is_ended = has_ended(h, t);
}

static void store(struct head *h, const struct token *t)
{
    Manta__V1__Token record;
    fill(h, t, false, &record);
    head_record_change(h, HEAD_TABLE_TOKENS, t->name, strlen(t->name), &record.base);
}

void head_tokens_tell(struct head *h)
{
    struct head_token *items = calloc(h->tokens.count + 1, sizeof *items);
    size_t             count = 0;
    if (!items) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "tell the named tokens"));
        return;
    }
    for (const struct head_index_node *at = h->tokens.first; at; at = at->next) {
        const struct token *t = mt_container_of(at, struct token, at);
        struct head_token  *to = &items[count++];
        to->number = t->number;
        to->right = is_good(h, t) ? t->right : MT_MAY_NOTHING;
        to->is_ended = !t->is_revoked && has_ended(h, t);
        memcpy(to->name, t->name, sizeof to->name);
        memcpy(to->sha256, t->sha256, sizeof to->sha256);
    }
    head_out_tokens(h, items, count);
}

/* ---- life ---- */

static void drop(struct head *h, struct token *t)
{
    head_index_remove(&h->tokens, &t->at);
    free(t);
}

static void forget(struct head *h, struct token *t)
{
    head_record_change(h, HEAD_TABLE_TOKENS, t->name, strlen(t->name), NULL);
    drop(h, t);
}

void head_tokens_fini(struct head *h)
{
    while (h->tokens.first)
        drop(h, mt_container_of(h->tokens.first, struct token, at));
    head_index_fini(&h->tokens);
}

/* Room for one more: the oldest that is of no use gives way. */
static bool make_room(struct head *h)
{
    if (h->tokens.count < MT_TOKENS_MAX)
        return true;
    for (struct head_index_node *at = h->tokens.first; at; at = at->next) {
        struct token *t = mt_container_of(at, struct token, at);
        if (is_good(h, t))
            continue;
        forget(h, t);
        return true;
    }
    return false;
}

static struct token *add(struct head *h, const char *name, const uint8_t sha256[HEAD_SHA_SIZE])
{
    struct token *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    snprintf(t->name, sizeof t->name, "%s", name);
    memcpy(t->sha256, sha256, HEAD_SHA_SIZE);
    t->number = head_token_number(sha256);
    if (head_index_add(&h->tokens, &t->at, t->name).code) {
        free(t);
        return NULL;
    }
    return t;
}

mt_status head_tokens_load(struct head *h, const Manta__V1__Token *r)
{
    if (!r->name[0] || strlen(r->name) >= HEAD_NAME_SIZE || r->sha256.len != HEAD_SHA_SIZE || find(h, r->name) ||
        r->right < MT_MAY_READ || r->right > MT_MAY_ADMIN)
        return mt_error(MT_ECORRUPT, 0, "the store holds a named token that can't be");
    struct token *t = add(h, r->name, r->sha256.data);
    if (!t)
        return mt_error(MT_ENOMEM, 0, "load a named token");
    t->right = (enum mt_right)r->right;
    t->made_ms = r->made_ms;
    t->ends_ms = r->ends_ms;
    t->is_revoked = r->is_revoked;
    return mt_ok();
}

void head_tokens_tick(struct head *h)
{
    bool is_news = false;
    for (struct head_index_node *at = h->tokens.first; at; at = at->next) {
        struct token *t = mt_container_of(at, struct token, at);
        if (t->is_over || !has_ended(h, t))
            continue;
        t->is_over = true; /* also where the clock goes back */
        is_news |= !t->is_revoked;
    }
    if (is_news)
        head_tokens_tell(h);
}

/* ---- what clients ask ---- */

/* It stands in lists, logs and command lines; a ticket's id has 16 hexadecimal digits, and `manta token revoke` takes both. */
static bool is_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    size_t            size = strlen(name), odd = strcspn(name, letters);
    return size >= 1 && size < HEAD_NAME_SIZE && odd == 0 &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-") == size &&
           !(size == 16 && strspn(name, "0123456789abcdefABCDEF") == size);
}

/* Why not; MT_OK: nothing is against it. */
static int32_t refusal(struct head *h, const Manta__V1__CreateTokenRequest *r, char *text, size_t size)
{
    if (!is_name(r->name)) {
        snprintf(text, size,
                 "a token's name has 1 to %d letters, digits, or . _ - @, begins with a letter, a digit or _, and is not 16 "
                 "hexadecimal digits",
                 HEAD_NAME_SIZE - 1);
        return MT_EINVAL;
    }
    if (strcmp(r->name, MT_ADMIN_NAME) == 0) {
        snprintf(text, size, "\"" MT_ADMIN_NAME "\" is the bearer of the cluster's own token: choose another name");
        return MT_EEXIST;
    }
    if (r->right < MT_MAY_READ || r->right > MT_MAY_ADMIN || r->sha256.len != HEAD_SHA_SIZE || r->valid_ms > UINT64_MAX / 2) {
        snprintf(text, size, "a token is good for read, submit or admin, and has an end that comes");
        return MT_EINVAL;
    }
    for (const struct head_index_node *at = h->tokens.first; at; at = at->next) {
        const struct token *t = mt_container_of(at, struct token, at);
        bool                is_same_text = t->number == head_token_number(r->sha256.data);
        if (!is_same_text && (!is_good(h, t) || strcmp(t->name, r->name) != 0))
            continue;
        snprintf(text, size,
                 is_same_text ? "this text is another token's, or was: draw a new one"
                              : "there is a token of this name that is good: revoke it first, or choose another name");
        return MT_EEXIST;
    }
    if (!head_has_room(h, 1024)) {
        snprintf(text, size, "%s", head_room_refusal(h).what);
        return head_room_refusal(h).code;
    }
    return MT_OK;
}

static struct token *make(struct head *h, const Manta__V1__CreateTokenRequest *r)
{
    struct token *old = find(h, r->name);
    if (old)
        drop(h, old); /* its record is written over */
    struct token *t = add(h, r->name, r->sha256.data);
    if (!t) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "make a token"));
        return NULL;
    }
    t->right = (enum mt_right)r->right;
    t->made_ms = h->wall_ms;
    t->ends_ms = r->valid_ms ? h->wall_ms + r->valid_ms : 0;
    h->count.token_made++;
    mt_log(MT_LOG_INFO, "token_made", "name=%s right=%s", t->name, mt_right_text(t->right));
    store(h, t);
    head_tokens_tell(h);
    return t;
}

/* The same name and text again is the same token, as long as it is good. */
static bool is_again(const struct head *h, const struct token *t, const Manta__V1__CreateTokenRequest *r)
{
    return t && is_good(h, t) && r->sha256.len == HEAD_SHA_SIZE && memcmp(t->sha256, r->sha256.data, HEAD_SHA_SIZE) == 0 &&
           t->right == r->right;
}

void head_tokens_create(struct head *h, uint64_t call, const Manta__V1__CreateTokenRequest *r)
{
    Manta__V1__CreateTokenReply reply = MANTA__V1__CREATE_TOKEN_REPLY__INIT;
    Manta__V1__Token            token;
    char                        text[HEAD_TEXT_SIZE] = "";
    struct token               *t = find(h, r->name);
    reply.text = text;
    if (!is_again(h, t, r)) {
        t = NULL;
        reply.code = refusal(h, r, text, sizeof text);
        if (!reply.code && !find(h, r->name) && !make_room(h)) {
            snprintf(text, sizeof text, "there are %d tokens that are good: revoke some (manta token list)", MT_TOKENS_MAX);
            reply.code = MT_EAGAIN;
        }
        if (!reply.code)
            t = make(h, r);
    }
    if (t) {
        fill(h, t, true, &token);
        reply.token = &token;
    }
    head_out_reply(h, call, HEAD_CREATE_TOKEN, &reply.base);
}

void head_tokens_list(struct head *h, uint64_t call)
{
    Manta__V1__ListTokensReply reply = MANTA__V1__LIST_TOKENS_REPLY__INIT;
    Manta__V1__Token          *items = calloc(h->tokens.count + 1, sizeof *items);
    reply.tokens = calloc(h->tokens.count + 1, sizeof(Manta__V1__Token *));
    if (items && reply.tokens) {
        for (const struct head_index_node *at = h->tokens.first; at; at = at->next) {
            fill(h, mt_container_of(at, struct token, at), true, &items[reply.n_tokens]);
            reply.tokens[reply.n_tokens] = &items[reply.n_tokens];
            reply.n_tokens++;
        }
        head_out_reply(h, call, HEAD_LIST_TOKENS, &reply.base);
    } else {
        head_broken(h, mt_error(MT_ENOMEM, 0, "list the tokens"));
    }
    free(items);
    free(reply.tokens);
}

void head_tokens_revoke(struct head *h, uint64_t call, const Manta__V1__RevokeTokenRequest *request)
{
    Manta__V1__RevokeReply reply = MANTA__V1__REVOKE_REPLY__INIT;
    char                   text[HEAD_TEXT_SIZE] = "";
    struct token          *t = find(h, request->name);
    if (!t) {
        bool is_admin = strcmp(request->name, MT_ADMIN_NAME) == 0;
        reply.code = is_admin ? MT_EINVAL : MT_ENOENT;
        snprintf(text, sizeof text,
                 is_admin ? "the cluster's own token lives as long as the cluster: it can't be revoked"
                          : "there is no token \"%.64s\": manta token list shows them",
                 request->name);
    } else if (!t->is_revoked) {
        mt_log(MT_LOG_INFO, "token_revoked", "name=%s", t->name);
        t->is_revoked = true;
        if (!MT_PLANT(MT_PLANT_TOKEN_UNSTORED))
            store(h, t);
        head_tokens_tell(h);
    }
    reply.text = text;
    head_out_reply(h, call, HEAD_REVOKE_TOKEN, &reply.base);
}
