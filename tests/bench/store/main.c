/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-store: figures of the object store alone: put and get between two processes, beside their floors.
 *
 *   manta-bench-store [GIB]     size of the large object, default 1
 *
 * This process is raylet and writer; a child reads. Every value that is read is verified. Prints one line per
 * case: name, value, unit, standard deviation, floor and its value; the floors are measured in the same run.
 */
#include "objectstore/server/store.h"
#include "objectstore/system/backing.h"
#include "objectstore/client/client.h"
#include "tests/bench/usage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 7, SMALL = 1024, SMALL_COUNT = 200000, GET_COUNT = 50000, PREFAULT_MIN = 64 * 1024, NODE = 1, JOB = 1 };

static void must(mt_status st, const char *what)
{
    if (st.code == MT_OK)
        return;
    fprintf(stderr, "manta-bench-store: %s: %s (%s)\n", what, mt_code_name(st.code), st.what);
    exit(1);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

struct samples {
    double x[REPEATS];
    int    n;
};

static void samples_add(struct samples *s, double x)
{
    s->x[s->n++] = x;
}
static double mean(const struct samples *s)
{
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->x[i];
    return sum / s->n;
}
static double deviation(const struct samples *s)
{
    double m = mean(s), sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += (s->x[i] - m) * (s->x[i] - m);
    return s->n > 1 ? sqrt(sum / (s->n - 1)) : 0;
}

static void report(const char *name, const struct samples *s, const char *unit, const char *floor, double floor_value)
{
    printf("%-22s %12.4g %-6s sd %8.2g", name, mean(s), unit, deviation(s));
    if (floor)
        printf("  %-12s %10.4g  ratio %.3f", floor, floor_value, mean(s) / floor_value);
    printf("\n");
    fflush(stdout);
}

/* --- the node
 * ----------------------------------------------------------------------------------------------------- */

struct bench {
    struct os_store  *store;
    struct os_client  writer;
    struct os_actions actions;
    void             *pins[2]; /* writer, reader */
    uint64_t          counter;
    struct lane_ref   warm_up; /* an object that the reader reads before it is timed */
};

static void *pin_table(void)
{
    void *at = mmap(NULL, OS_PINS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    return at;
}

static void open_bench(struct bench *b)
{
    struct os_store_config config = {.bytes_max = UINT64_C(64) << 30, .node = NODE};
    must(os_store_new(&config, &b->store), "store");
    for (int i = 0; i < 2; i++) {
        b->pins[i] = pin_table();
        must(os_store_add_process(b->store, 1 + (uint64_t)i, JOB, b->pins[i]), "process");
    }
    must(os_client_init(&b->writer, 1, NODE, JOB, b->pins[0]), "client");
}

static void grow(struct bench *b, uint64_t size)
{
    struct os_grant   grant;
    struct os_backing backing;
    char              text[OS_TEXT_SIZE];
    uint32_t          segment;
    void             *data;
    must(os_store_want(b->store, 1, size, NULL, &grant, text, &b->actions), "want");
    must(os_backing_make(grant.create_size, &backing), "memory");
    must(os_store_add_segment(b->store, 1, grant.create_size, &backing, &segment), "segment");
    must(os_memory_map(backing.data_rw, grant.create_size, true, &data), "map");
    must(os_client_add_own(&b->writer, segment, grant.create_size, data, data, backing.generations), "add");
}

static void put(struct bench *b, const void *value, uint64_t size, struct lane_ref *ref)
{
    struct os_place place;
    void           *data;
    uint64_t        want;
    while (os_client_alloc(&b->writer, size, &place, &data, &want).code != MT_OK)
        grow(b, want);
    if (place.cold >= PREFAULT_MIN)
        must(os_memory_prefault((void *)((uintptr_t)data & ~(uintptr_t)4095), size), "pre-fault");
    os_copy(data, value, size);
    os_client_publish(&b->writer, place, data, mt_id_make(1, ++b->counter, 1), NODE, size, 'b', ref);
}

/* What the raylet does for a batch of dead objects, and the writer with what comes back. */
static void dead(struct bench *b, const struct lane_ref *refs, int count)
{
    for (int i = 0; i < count; i++)
        must(os_store_dead(b->store, 1, &refs[i]), "dead");
    must(os_store_sweep(b->store, &b->actions), "sweep");
    for (size_t i = 0; i < b->actions.count; i++)
        must(os_client_space_back(&b->writer, b->actions.data[i].segment, b->actions.data[i].offset), "back");
    b->actions.count = 0;
}

/* --- cases
 * -------------------------------------------------------------------------------------------------------- */

static void put_small(struct bench *b)
{
    static uint8_t         value[SMALL];
    static struct lane_ref refs[1024];
    struct samples         local = {0}, shared = {0};
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        for (int i = 0; i < SMALL_COUNT; i++) {
            put(b, value, SMALL, &refs[0]);
            must(os_client_free(&b->writer, refs[0].segment, refs[0].offset, refs[0].generation), "free");
        }
        samples_add(&local, SMALL_COUNT / (now() - start));
        start = now();
        for (int i = 0; i < SMALL_COUNT; i += 1000) {
            for (int k = 0; k < 1000; k++)
                put(b, value, SMALL, &refs[k]);
            dead(b, refs, 1000);
        }
        samples_add(&shared, SMALL_COUNT / (now() - start));
    }
    report("put_1k_free", &local, "1/s", NULL, 0);
    report("put_1k_hand_back", &shared, "1/s", NULL, 0);
}

static void map_segment(struct bench *b, struct os_client *client, uint32_t segment)
{
    struct os_segment_view view;
    void                  *data;
    must(os_store_segment(b->store, 2, segment, &view), "segment");
    must(os_memory_map(view.backing.data_ro, view.size, false, &data), "map");
    must(os_client_add_reader(client, view.segment, view.size, data, view.backing.generations), "add");
}

static void read_one(struct os_client *client, const struct lane_ref *ref, uint64_t expected)
{
    const void *data;
    must(os_client_pin(client, ref, &data), "pin");
    if (*(const uint64_t *)data != expected)
        _exit(1);
    must(os_client_unpin(client, ref), "unpin");
}

/* In the child: one object to warm up with, then the first pin of each object. A segment's mapping is timed
 * when `map_late`. */
static void reader(struct bench *b, const struct lane_ref *refs, int count, bool map_late, double *seconds)
{
    struct os_client       client;
    struct os_segment_view view = {0};
    must(os_client_init(&client, 2, NODE, JOB, b->pins[1]), "client");
    while (os_store_next(b->store, view.segment, &view))
        if (!map_late || view.segment != refs[0].segment)
            map_segment(b, &client, view.segment);
    read_one(&client, &b->warm_up, 0);
    double start = now();
    if (map_late)
        map_segment(b, &client, refs[0].segment);
    for (int i = 0; i < count; i++)
        read_one(&client, &refs[i], (uint64_t)i);
    *seconds = now() - start;
    os_client_fini(&client);
}

static double in_child(struct bench *b, const struct lane_ref *refs, int count, bool map_late)
{
    double *seconds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int     status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        reader(b, refs, count, map_late, seconds);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "manta-bench-store: the reader failed\n");
        exit(1);
    }
    double s = *seconds;
    munmap(seconds, 4096);
    return s;
}

static void get_small(struct bench *b)
{
    struct lane_ref *refs = calloc(GET_COUNT, sizeof *refs);
    struct samples   rate = {0};
    for (int i = 0; i < GET_COUNT; i++) {
        uint64_t value[SMALL / 8] = {(uint64_t)i};
        put(b, value, SMALL, &refs[i]);
    }
    for (int r = 0; r < REPEATS; r++)
        samples_add(&rate, GET_COUNT / in_child(b, refs, GET_COUNT, false));
    report("get_local_first", &rate, "1/s", NULL, 0);
    dead(b, refs, GET_COUNT);
    free(refs);
}

static void large(struct bench *b, uint64_t size)
{
    uint64_t *from = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void     *to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED || to == MAP_FAILED)
        exit(1);
    memset(from, 0, size);
    memset(to, 1, size);
    struct samples plain = {0}, stream = {0}, cold = {0}, warm = {0}, get = {0}, get_map = {0};
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        memcpy(to, from, size);
        samples_add(&plain, (double)size / (now() - start) / 1e9);
        start = now();
        os_copy(to, from, size);
        samples_add(&stream, (double)size / (now() - start) / 1e9);
    }
    munmap(to, size);
    struct lane_ref ref;
    double          start = now();
    put(b, from, size, &ref);
    samples_add(&cold, (double)size / (now() - start) / 1e9);
    dead(b, &ref, 1);
    for (int r = 0; r < REPEATS; r++) {
        start = now();
        put(b, from, size, &ref);
        samples_add(&warm, (double)size / (now() - start) / 1e9);
        samples_add(&get, 1e6 * in_child(b, &ref, 1, false));
        samples_add(&get_map, 1e6 * in_child(b, &ref, 1, true));
        dead(b, &ref, 1);
    }
    munmap(from, size);
    report("floor_memcpy", &plain, "GB/s", NULL, 0);
    report("floor_stream_copy", &stream, "GB/s", NULL, 0);
    report("put_large_fresh", &cold, "GB/s", "memcpy", mean(&plain));
    report("put_large_warm", &warm, "GB/s", "memcpy", mean(&plain));
    report("put_large_warm", &warm, "GB/s", "stream copy", mean(&stream));
    report("get_large", &get, "us", NULL, 0);
    report("get_large_and_map", &get_map, "us", NULL, 0);
}

static void prefault(uint64_t size)
{
    struct samples faults = {0}, populate = {0};
    for (int r = 0; r < 3; r++)
        for (int how = 0; how < 2; how++) {
            struct os_backing backing;
            void             *data;
            must(os_backing_make(size, &backing), "memory");
            must(os_memory_map(backing.data_rw, size, true, &data), "map");
            double start = now();
            if (how == 0)
                for (uint64_t i = 0; i < size; i += 4096)
                    ((volatile uint8_t *)data)[i] = 1;
            else
                must(os_memory_prefault(data, size), "pre-fault");
            samples_add(how == 0 ? &faults : &populate, (double)size / (now() - start) / 1e9);
            os_memory_unmap(data, size);
            os_backing_close(&backing, size);
        }
    report("fault_by_touch", &faults, "GB/s", NULL, 0);
    report("fault_by_populate", &populate, "GB/s", "touch", mean(&faults));
}

int main(int argc, char **argv)
{
    if (bench_is_help(argc, argv))
        return bench_usage(true, "--store [GIB of the large object]");
    uint64_t     size = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) << 30;
    struct bench b = {0};
    open_bench(&b);
    put(&b, (uint64_t[8]){0}, 64, &b.warm_up);
    put_small(&b);
    get_small(&b);
    large(&b, size);
    prefault(size / 4);
    must(os_store_close_all(b.store, &b.actions), "close");
    for (size_t i = 0; i < b.actions.count; i++)
        os_backing_close(&b.actions.data[i].backing, b.actions.data[i].size);
    os_actions_fini(&b.actions);
    os_client_fini(&b.writer);
    os_store_free(b.store);
    return 0;
}
