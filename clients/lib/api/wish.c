/* SPDX-License-Identifier: Apache-2.0
 *
 * wish.c - what this process would use beyond what it has, told to the raylet.
 *
 * Owns: nothing. Thread: any; takes the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include "core/text/labels.h"

#include <math.h>
#include <stdlib.h>

struct wish_ask {
    struct ctl_request request;
    struct ctl_wish    wish;
};

static manta_status fill(const manta_wish *from, struct ctl_wish *out, manta_error *e)
{
    struct own_class_spec spec = {0};
    struct own_failure    f;
    char                  text[2 * MT_LABELS_BYTES_MAX];
    size_t                length = from && from->name ? strlen(from->name) : 0;
    if (length < 1 || length >= sizeof out->name)
        return lib_error(e, MANTA_EINVAL, "a wish has a name of 1 to %d letters", (int)sizeof out->name - 1);
    for (size_t i = 0; i < sizeof from->reserved / sizeof from->reserved[0]; i++)
        if (from->reserved[i])
            return lib_error(e, MANTA_EINVAL, "the wish \"%s\" has an option that this library does not know: zero the struct",
                             from->name);
    if (from->count < 0 || !(from->worth >= 0) || !isfinite(from->worth))
        return lib_error(e, MANTA_EINVAL, "the wish \"%s\": a count of %d, each worth %g: neither may be less than 0", from->name,
                         from->count, from->worth);
    if (from->labels && mt_selector_check(from->labels, text, sizeof text).code)
        return lib_error(e, MANTA_EINVAL, "the wish \"%s\": %s", from->name, text);
    if (!lib_class_spec(&spec, from->num_cpus, from->num_gpus, from->memory, from->resources, from->resource_count, &f))
        return lib_error(e, f.code, "the wish \"%s\": %s", from->name, f.message);
    *out = (struct ctl_wish){.count = (uint32_t)from->count, .resource_count = spec.resource_count};
    out->worth_milli = from->worth < 1e6 ? (uint32_t)(from->worth * 1000 + 0.5) : 1000000000;
    memcpy(out->name, from->name, length + 1);
    memcpy(out->resources, spec.resources, sizeof out->resources);
    snprintf(out->labels, sizeof out->labels, "%s", from->labels ? from->labels : "");
    return MANTA_OK;
}

manta_status manta_wish_tell(const manta_wish *wish, manta_error *e)
{
    struct wish_ask     ask = {.request = {.op = CTL_OP_WISH}};
    struct lib_request *request = NULL;
    manta_status        code = fill(wish, &ask.wish, e);
    if (code == MANTA_OK)
        code = lib_ask(CTL_REQUEST, &ask, sizeof ask, &request, e);
    free(request);
    return code;
}

int manta_wish_look(const char *name, char *text, size_t text_size, manta_error *e)
{
    struct wish_ask      ask = {.request = {.op = CTL_OP_WISH_LOOK}};
    struct ctl_wish_news news = {0};
    struct lib_request  *request = NULL;
    if (!name || !name[0] || strlen(name) >= sizeof ask.wish.name || !text || !text_size)
        return -lib_error(e, MANTA_EINVAL, "manta_wish_look: a wish has a name of 1 to %d letters, and why needs a place",
                          (int)sizeof ask.wish.name - 1);
    text[0] = '\0';
    memcpy(ask.wish.name, name, strlen(name) + 1);
    manta_status code = lib_ask(CTL_REQUEST, &ask, sizeof ask, &request, e);
    if (code == MANTA_OK && request->size >= sizeof(struct ctl_reply) + sizeof news)
        memcpy(&news, request->payload + sizeof(struct ctl_reply), sizeof news);
    free(request);
    snprintf(text, text_size, "%.*s", (int)sizeof news.text - 1, news.text);
    return code == MANTA_OK ? (int)news.stands : -code;
}
