/* SPDX-License-Identifier: Apache-2.0
 *
 * stranger.c - a program of its own (ADDRESS) that has no class "till": it finds the actor "bank", which is one and has 120,
 * and calls it by name. Exit status 0: all was as it should be.
 */
#include <manta.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 20 * 1000, LARGE = 300 * 1000, PAGE = 3000 };

static void wrong(const char *what, const manta_error *e)
{
    fprintf(stderr, "stranger: %s (%s)\n", what, e->message);
    exit(1);
}

static void expect(manta_ref *take_ref, manta_status wanted, const char *text, int64_t value)
{
    manta_error  e = {.message = ""};
    int64_t      got = 0;
    manta_status code = manta_get_i64(take_ref, LIMIT_MS, &got, &e);
    manta_free(take_ref);
    if (code != wanted || got != value || !strstr(e.message, text))
        wrong(text[0] ? text : "another value", &e);
}

int main(int argc, char **argv)
{
    manta_init_opts opts = {.address = argc > 1 ? argv[1] : ""};
    manta_error     e = {.message = ""};
    manta_view      view;
    char           *data = calloc(1, LARGE), name[] = "add";
    if (!data || manta_init(&argc, &argv, &opts, &e))
        wrong("init", &e);
    manta_actor *bank = manta_actor_find("bank", LIMIT_MS, &e);
    if (!bank)
        wrong("find", &e);
    manta_ref *sum = manta_actor_call(bank, name, MANTA_ARGS(manta_i64(0)));
    name[0] = 'x'; /* the name need not stay */
    expect(sum, MANTA_OK, "", 120);
    manta_ref *page = manta_actor_call(bank, "page", MANTA_ARGS(manta_i64(PAGE)));
    if (manta_get(page, LIMIT_MS, &view, &e) || view.size != PAGE)
        wrong("page", &e);
    manta_release(&view);
    manta_free(page);
    expect(manta_actor_call(bank, "weigh", MANTA_ARGS(manta_data((manta_bytes){data, LARGE}), manta_i64(9))), MANTA_OK, "", -1);
    expect(manta_actor_call(bank, "add", MANTA_ARGS(manta_str("one"))), MANTA_ETYPE, "argument 1 is 's', want 'l'", 0);
    expect(manta_actor_call(bank, "add", MANTA_NO_ARGS), MANTA_ETYPE, "0 arguments are too few", 0);
    expect(manta_actor_call(bank, "subtract", MANTA_ARGS(manta_i64(1))), MANTA_ENOFUNC, "no such method", 0);
    expect(manta_actor_call_with(bank, "add", &(manta_actor_call_opts){.group = "io"}, MANTA_ARGS(manta_i64(1))), MANTA_EINVAL,
           "its class is not in this executable", 0);
    free(data);
    manta_actor_free(bank);
    return manta_shutdown();
}
