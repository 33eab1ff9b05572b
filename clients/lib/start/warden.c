/* SPDX-License-Identifier: Apache-2.0
 *
 * warden.c - the warden of a detached actor: the process that the head starts to make it and to answer for it.
 *
 * Owns:   nothing outside of its calls. Thread: the warden's main one.
 *
 * manta_init finds in the environment, and in two files of the job's folder, what detached.c has written down; defines the
 * actor's runtime environment, makes the actor, and waits for its end.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/api/detached.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"
#include "clients/lib/start/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool lib_is_warden(void)
{
    return lib.is_warden;
}

char *lib_warden_text(void)
{
    const char *text = getenv(LIB_WARDEN);
    char       *copy = text ? strdup(text) : NULL;
    lib.is_warden = copy != NULL;
    unsetenv(LIB_WARDEN);
    if (copy)
        unsetenv("MANTA_ROLE");
    return copy;
}

static bool bytes_of_hex(const char *hex, mt_buf *out)
{
    size_t size = strlen(hex);
    if (size % 2 || mt_buf_reserve(out, size / 2 + 8).code)
        return false;
    for (; *hex; hex += 2) {
        char    pair[3] = {hex[0], hex[1], 0}, *end;
        uint8_t byte = (uint8_t)strtoul(pair, &end, 16);
        if (*end || mt_buf_append(out, &byte, 1).code)
            return false;
    }
    return true;
}

/* What the warden makes the actor of. */
struct made_of {
    struct detached d;
    uint32_t        restarts; /* so far */
    mt_buf          create;   /* out of the environment */
    mt_buf          values;   /* out of the file */
    manta_ref      *refs[MANTA_ARGS_MAX];
    struct own_arg  args[MANTA_ARGS_MAX];
    uint64_t        env;
};

static bool file_read(const char *path, mt_buf *out)
{
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    bool        is_read = fd >= 0 && fstat(fd, &st) == 0 && mt_buf_reserve(out, (size_t)st.st_size + 1).code == 0;
    ssize_t     n = 0;
    while (is_read && (n = read(fd, out->data + out->size, (size_t)st.st_size + 1 - out->size)) > 0)
        out->size += (size_t)n;
    if (fd >= 0)
        close(fd);
    return is_read && n == 0 && out->size == (size_t)st.st_size;
}

/* Values that do not fit into a record, and those of references, become values of this process's own. */
static bool values_get(struct made_of *m, mt_reader *in)
{
    const size_t most = lib_inline_total((int)m->d.argc);
    size_t       total = 0;
    for (uint32_t i = 0; i < m->d.argc; i++) {
        struct lane_value value;
        mt_view           head = mt_reader_bytes(in, sizeof value), bytes;
        if (!head.data)
            return false;
        memcpy(&value, head.data, sizeof value);
        bytes = mt_reader_bytes(in, value.size);
        (void)mt_reader_bytes(in, -(size_t)value.size & 7);
        if (in->failed)
            return false;
        m->args[i] = (struct own_arg){.type = (char)value.type, .data = bytes.data, .size = value.size};
        total += value.size;
        if (value.type != 'r' && value.size < MANTA_INLINE_MAX && total <= most)
            continue;
        total -= value.size;
        m->refs[i] = lib_put(bytes.data, value.size, (char)(value.type == 'r' ? value.flags : value.type));
        m->args[i] = (struct own_arg){.type = (char)value.type, .ref = lib_ref_in(&lib.own, m->refs[i])};
    }
    return true;
}

/* Behind the values there may stand a runtime environment: it is defined anew, for this job. */
static bool env_get(struct made_of *m, mt_reader *in)
{
    struct ctl_env     def;
    struct lib_request request;
    manta_error        e;
    mt_view            head, strings;
    if (in->left == 0)
        return true;
    head = mt_reader_bytes(in, sizeof def);
    if (!head.data)
        return false;
    memcpy(&def, head.data, sizeof def);
    strings = mt_reader_bytes(in, def.strings_size);
    int fd = def.archive_size ? open(CTL_ENV_FILE, O_RDONLY | O_CLOEXEC) : -1;
    if (in->failed || (def.archive_size && fd < 0))
        return false;
    lib_lock();
    manta_status code = lib_call_socket(&request, CTL_ENV, &def, sizeof def, strings.data, strings.size, fd, MT_LIB_REQUEST_MS, &e);
    lib_unlock();
    if (fd >= 0)
        close(fd);
    m->env = def.key;
    return code == MANTA_OK;
}

/* False: what stands there is not of this version of the library, or not whole. */
static bool made_of_read(struct made_of *m, const char *text)
{
    char *hex;
    m->restarts = (uint32_t)strtoul(text, &hex, 10);
    if (*hex != ' ' || !bytes_of_hex(hex + 1, &m->create) || m->create.size < sizeof m->d)
        return false;
    memcpy(&m->d, m->create.data, sizeof m->d);
    if (m->d.version != DETACHED_VERSION || m->d.argc > MANTA_ARGS_MAX || m->d.resource_count > CTL_RESOURCES)
        return false;
    m->d.name.space[CTL_NAME_SIZE - 1] = m->d.name.name[CTL_NAME_SIZE - 1] = m->d.name.type[CTL_NAME_SIZE - 1] = 0;
    m->d.labels[sizeof m->d.labels - 1] = 0;
    mt_reader here = mt_reader_of(mt_view_of(m->create.data + sizeof m->d, m->create.size - sizeof m->d));
    if (!m->d.is_apart)
        return values_get(m, &here) && env_get(m, &here);
    if (!file_read(CTL_VALUES_FILE, &m->values))
        return false;
    mt_reader apart = mt_reader_of(mt_buf_view(&m->values));
    return values_get(m, &apart) && env_get(m, &here);
}

static void made_of_drop(struct made_of *m)
{
    for (int i = 0; i < MANTA_ARGS_MAX; i++)
        if (m->refs[i])
            manta_free(m->refs[i]);
    mt_buf_fini(&m->create);
    mt_buf_fini(&m->values);
}

static struct own_actor *warden_make(const struct made_of *m)
{
    const struct detached *d = &m->d;
    struct own_class_spec  spec = {.name = d->name.type,
                                   .group = lib_hash(d->name.type),
                                   .flags = d->flags,
                                   .policy = d->policy,
                                   .node = d->node,
                                   .resource_count = d->resource_count,
                                   .env = m->env,
                                   .labels = d->labels};
    struct own_warden      warden = {.actor = d->name.actor, .restarts = m->restarts};
    manta_actor_type      *type = lib_actor_type_find(d->name.type);
    struct own_call        call = {.argc = (int)d->argc,
                                   .args = m->args,
                                   .function = spec.group,
                                   .name = type ? type->name : "?",
                                   .create_options = d->create_options,
                                   .warden = &warden};
    int32_t left = d->restarts < 0 ? -1 : m->restarts < (uint32_t)d->restarts ? d->restarts - (int32_t)m->restarts : 0;
    memcpy(spec.resources, d->resources, sizeof spec.resources);
    spec.pg = d->pg;
    spec.bundle = d->bundle;
    return own_actor_new(&lib.own, &spec, d->name.space, d->name.name, left, 0, &call);
}

static bool is_over(void *arg)
{
    const struct own_actor *actor = arg;
    return actor->state == OWN_ACTOR_DEAD || lib.broken;
}

void lib_warden_serve(char *take_text)
{
    static struct made_of made_of; /* large, and there is only one */
    struct own_actor     *actor = NULL;
    signal(SIGTERM, SIG_DFL); /* the program's own handler is for its drivers: a warden has nothing to put in order */
    if (made_of_read(&made_of, take_text)) {
        lib_lock();
        actor = warden_make(&made_of);
        lib_unlock();
    }
    free(take_text);
    made_of_drop(&made_of); /* the actor holds what it needs for its restarts */
    if (actor) {
        lib_lock();
        lib_helper_start();
        lib_act();
        lib_wait(is_over, actor, INT64_MAX); /* until it is dead for good, and the head has been told why */
        lib_act();
        lib_unlock();
    }
    manta_shutdown();
    _exit(actor ? 0 : 1);
}
