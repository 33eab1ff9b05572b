/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c - arguments and results of a call, against its signature.
 *
 * Owns:   nothing. Thread: any, under the owner lock; what goes through the store without it.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"

static bool argument(const manta_arg *from, char wanted, struct own_arg *to, struct own_actor_wire *wire)
{
    to->type = wanted;
    to->ref = NULL;
    if (from->type == 'r') {
        to->ref = lib_ref_in(&lib.own, from->r); /* arg_handle has looked */
        return from->r != NULL;
    }
    if (from->type != wanted)
        return false;
    switch (wanted) {
    case 'b':
        to->data = &from->b;
        to->size = 1;
        return true;
    case 's':
        to->data = from->y.data;
        to->size = from->y.size + 1; /* with its NUL */
        return from->y.data != NULL;
    case 'y':
        to->data = from->y.data;
        to->size = from->y.size;
        return from->y.data != NULL || from->y.size == 0;
    case 'A':
        if (!from->A)
            return false;
        own_actor_wire(lib_handle_of(from->A, LIB_OF_ACTOR), wire);
        to->data = wire;
        to->size = sizeof *wire;
        return true;
    default: return false;
    }
}

/* A reference or an actor among the arguments is one that the user holds; NULL is refused later on. */
static bool arg_handle(const char *name, int number, const manta_arg *from, struct own_failure *f)
{
    bool         is_ref = from->type == 'r', is_there;
    const void  *handle = is_ref ? (const void *)from->r : (const void *)from->A;
    manta_status code;
    if ((!is_ref && from->type != 'A') || !handle)
        return true;
    is_there = is_ref ? lib_ref_in(&lib.own, handle) != NULL : lib_handle_of(handle, LIB_OF_ACTOR) != NULL;
    if (is_there)
        return true;
    code = lib_handle_code(handle);
    if (code)
        own_failure_set(f, code, "%s: argument %d holds an error: %s", name, number, lib_handle_text(code));
    else
        own_failure_set(f, MT_EHANDLE, "%s: argument %d is %s that was freed before, or none", name, number,
                        is_ref ? "a reference" : "an actor");
    snprintf(f->function, sizeof f->function, "%s", name);
    return false;
}

/* Room for so many. Both are 8-aligned. */
static struct own_actor_wire *room_of(struct lib_args *out, int argc)
{
    struct own_actor_wire *wires = out->few_wires;
    out->args = out->few;
    if (MT_LIKELY(argc <= LIB_FEW_ARGS))
        return wires;
    wires = out->block = malloc((size_t)argc * (sizeof *wires + sizeof *out->args));
    out->args = wires ? (struct own_arg *)(wires + argc) : out->few;
    return wires;
}

/* How many letters of a signature are of arguments. They are few: a call of strpbrk takes longer. */
static int arguments_of(const char *signature)
{
    int count = 0;
    while (signature[count] && signature[count] != '>' && signature[count] != '@')
        count++;
    return count;
}

bool lib_args(const char *name, const char *signature, int argc, const manta_arg *argv, struct lib_args *out, struct own_failure *f,
              const char *file, int line)
{
    struct own_actor_wire *wires;
    int                    fixed = arguments_of(signature);
    bool                   more = fixed && signature[fixed - 1] == '*';

    fixed -= more;
    if (argc < 0 || (argc > 0 && !argv)) {
        own_failure_set(f, MT_EINVAL, "%s: %d arguments at %s", name, argc, argv ? "an address" : "NULL");
        snprintf(f->function, sizeof f->function, "%s", name);
        return false;
    }
    if (argc > MANTA_ARGS_MAX || argc < fixed || (argc > fixed && !more)) {
        if (argc > MANTA_ARGS_MAX)
            own_failure_set(f, MT_ETYPE, "%s: %d arguments, and a call has at most %d; defined at %s:%d", name, argc,
                            MANTA_ARGS_MAX, file, line);
        else
            own_failure_set(f, MT_ETYPE, "%s takes %s%d arguments (\"%s\"), not %d; defined at %s:%d", name,
                            more ? "at least " : "", fixed, signature, argc, file, line);
        snprintf(f->function, sizeof f->function, "%s", name);
        return false;
    }
    wires = room_of(out, argc);
    if (MT_UNLIKELY(!wires)) {
        own_failure_set(f, MT_ENOMEM, "%s: no memory for %d arguments", name, argc);
        return false;
    }
    for (int i = 0; i < argc; i++) {
        char wanted = i < fixed ? signature[i] : argv[i].type == 'r' ? '*' : argv[i].type; /* a reference: as its value */
        if (MT_LIKELY(argv[i].type == wanted && (wanted == 'l' || wanted == 'u' || wanted == 'd'))) {
            out->args[i] = (struct own_arg){.type = wanted, .data = &argv[i].l, .size = 8};
            continue;
        }
        if (!arg_handle(name, i + 1, &argv[i], f))
            return false;
        if (argument(&argv[i], wanted, &out->args[i], &wires[i]))
            continue;
        own_failure_set(f, MT_ETYPE, "%s: argument %d is '%c'%s, want '%c' (\"%s\"); defined at %s:%d", name, i + 1, argv[i].type,
                        argv[i].type == wanted ? " without a value" : "", wanted, signature, file, line);
        snprintf(f->function, sizeof f->function, "%s", name);
        return false;
    }
    return true;
}

/* ---- arguments too large for a record ---- */

enum {
    SPILL_TOTAL = 12 * 1024, /* of values inline in one record */
    /* An argument that is a reference takes so much of the record, if need be (own_task_encode): no value may take that away. */
    ASKED_SIZE = sizeof(struct lane_value) + sizeof(struct lane_asked),
    RECORD_ROOM = LANE_RECORD_MAX - LANE_RECORD_SIZE - sizeof(struct lane_call_head) - sizeof(struct lane_limits),
};

size_t lib_inline_total(int argc)
{
    size_t most = RECORD_ROOM - (size_t)argc * ASKED_SIZE;
    return most < SPILL_TOTAL ? most : SPILL_TOTAL;
}

/* Which of the first `argc` values go through the store; how many. */
static int choose_large(const char *signature, int argc, const manta_arg *argv, bool *is_large)
{
    const size_t most = lib_inline_total(argc);
    size_t       total = 0;
    int          count = 0;
    for (int i = 0; i < argc; i++) {
        char type = argv[i].type, wanted = *signature;
        is_large[i] = false;
        signature += wanted && wanted != '>' && wanted != '*';
        if ((type != 's' && type != 'y') || (wanted != type && wanted != '*') || !argv[i].y.data)
            continue;
        is_large[i] = argv[i].y.size >= MANTA_INLINE_MAX || total + argv[i].y.size > most;
        total += is_large[i] ? 0 : argv[i].y.size;
        count += is_large[i];
    }
    return count;
}

static bool has_bytes(int argc, const manta_arg *argv)
{
    for (int i = 0; i < argc; i++)
        if (argv[i].type == 's' || argv[i].type == 'y')
            return true;
    return false;
}

bool lib_may_spill(int argc, const manta_arg *argv)
{
    bool is_large[MANTA_ARGS_MAX];
    return argv && argc > 0 && argc <= MANTA_ARGS_MAX && choose_large("*", argc, argv, is_large) > 0;
}

const manta_arg *lib_spill(struct lib_spilled *s, const char *signature, int argc, const manta_arg *argv)
{
    bool is_large[MANTA_ARGS_MAX];
    s->count = 0;
    s->args = NULL;
    if (!argv || argc < 0 || argc > MANTA_ARGS_MAX || !has_bytes(argc, argv) || choose_large(signature, argc, argv, is_large) == 0)
        return argv;
    s->args = malloc((size_t)argc * (sizeof *s->args + sizeof *s->puts));
    if (!s->args)
        return argv; /* the owner half finds it too large */
    s->puts = (manta_ref **)(s->args + argc);
    for (int i = 0; i < argc; i++) {
        s->args[i] = argv[i];
        if (!is_large[i])
            continue;
        s->puts[s->count] = lib_put(argv[i].y.data, argv[i].y.size + (argv[i].type == 's'), argv[i].type);
        s->args[i] = manta_ref_arg(s->puts[s->count++]);
    }
    return s->args;
}

void lib_spilled_drop(struct lib_spilled *s)
{
    for (int i = 0; i < s->count; i++)
        manta_free(s->puts[i]);
    free(s->args);
}

/* ---- results ---- */

bool lib_results_fit(const char *name, const char *signature, const struct own_call *call, const char *file, int line,
                     struct own_failure *f)
{
    const char *letters = strchr(signature, '>');
    uint32_t    gives, wants = call->count ? call->count : 1;
    bool        any;
    if (MT_LIKELY(wants == 1 && !call->stream && (!letters || !letters[1] || !letters[2])))
        return true;
    any = strchr(letters ? letters : "", '*') != NULL;
    gives = lib_result_count(signature);
    if (call->stream && gives > 1 && !any)
        own_failure_set(f, MT_ETYPE, "%s returns %u values (\"%s\"): items of a generator have one type; defined at %s:%d", name,
                        gives, signature, file, line);
    else if (!call->stream && wants != (gives ? gives : 1) && !any)
        own_failure_set(f, MT_ETYPE, "%s returns %u value%s (\"%s\"), not %u: use manta_call_n; defined at %s:%d", name, gives,
                        gives == 1 ? "" : "s", signature, wants, file, line);
    else
        return true;
    snprintf(f->function, sizeof f->function, "%s", name);
    return false;
}
