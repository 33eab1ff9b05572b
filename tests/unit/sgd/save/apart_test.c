/* SPDX-License-Identifier: Apache-2.0
 *
 * apart_test.c - checkpoints of a sharded state on machines that see no folder in common: each part stands on two, any machine may
 * be lost at any moment of any save, and what is left is put together from whichever machine has it.
 *
 * A machine is a folder; its members are threads that save as a run's do. What comes from another machine is copied from its
 * folder.
 */
#include "tests/unit/sgd/temp.h"

#include "core/base/rng.h"
#include "sgd/ground/file.h"
#include "sgd/save/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { MACHINES_MAX = 4, MEMBERS_MAX = 8, EACH = 3, PATH = 512, NOBODY = MACHINES_MAX };

struct world {
    char     root[TEMP_PATH];
    uint32_t machines, members;
    uint32_t machine_of[MEMBERS_MAX];
    uint64_t marks[MEMBERS_MAX];
    uint32_t nodes[MEMBERS_MAX]; /* machine + 1 */
    uint32_t lost;               /* a machine that answers nobody; NOBODY: all do */
    uint32_t keep;
    uint64_t settled;
};

static struct world world;

static const char *folder_of(uint32_t machine, char out[PATH])
{
    snprintf(out, PATH, "%.200s/m%u", world.root, machine);
    return out;
}

static void world_make(const char *root, uint32_t machines, uint32_t members)
{
    char path[PATH];
    temp_clear(root);
    assert_int_equal(mkdir(root, 0700), 0);
    world = (struct world){.machines = machines, .members = members, .lost = NOBODY, .keep = 1};
    snprintf(world.root, sizeof world.root, "%.200s", root);
    for (uint32_t r = 0; r < members; r++) {
        world.machine_of[r] = r * machines / members; /* node by node, as ranks are */
        world.marks[r] = 100 + world.machine_of[r];
        world.nodes[r] = world.machine_of[r] + 1;
    }
    for (uint32_t m = 0; m < machines; m++)
        assert_int_equal(mkdir(folder_of(m, path), 0755), 0);
}

/* ---- another machine ---- */

static bool is_at(const char *folder, const char *name, const char *file)
{
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    return access(path, F_OK) == 0;
}

static mt_status bring(void *user, const struct sgd_bring *what)
{
    char folder[PATH], path[2 * PATH], bytes[8192];
    (void)user;
    if (what->node - 1 == world.lost)
        return mt_error(MT_ENODE_DIED, 0, "it is lost");
    folder_of(what->node - 1, folder);
    for (int i = 0; i < 2 && what->names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, what->names[i], what->file);
        int from = open(path, O_RDONLY | O_CLOEXEC);
        if (from < 0)
            continue;
        ssize_t size = read(from, bytes, sizeof bytes);
        int     to = openat(what->dir, "optimizer-brought", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(size >= 0 && size < (ssize_t)sizeof bytes && to >= 0);
        assert_int_equal(sgd_file_write(to, bytes, (size_t)size).code, MT_OK);
        close(from);
        close(to);
        assert_int_equal(renameat(what->dir, "optimizer-brought", what->dir, what->file), 0);
        return mt_ok();
    }
    for (int i = 0; i < 2 && what->refusals[0]; i++)
        if (is_at(folder, what->names[i], what->refusals[0]))
            return mt_error(MT_EDISK_FULL, ENOSPC, "full");
    return mt_error(MT_ENOENT, 0, "");
}

/* ---- saving ---- */

struct saving {
    pthread_t    thread;
    uint32_t     rank;
    uint64_t     step;
    _Atomic bool given_up;
    mt_status    st;
};

static float value_of(uint64_t step, uint32_t at)
{
    return (float)(step * 1000 + at);
}

/* Member r has elements EACH * r and so on of the one vector, and what goes with it. */
static void *member_save(void *arg)
{
    struct saving              *s = arg;
    char                        folder[PATH], name[MT_NAME_BYTES_MAX];
    float                       shard[EACH], params[MEMBERS_MAX * EACH];
    struct sgd_checkpoint_apart apart;
    struct sgd_checkpoint_meta  meta = {.step = s->step, .samples = s->step, .generation = 1, .kernels = "test"};
    struct sgd_tensor           tensor = {.dtype = SGD_F32, .ndim = 1, .shape = {EACH}, .data = shard};
    sgd_checkpoint_apart_choose(world.marks, world.nodes, world.members, s->rank, &apart);
    apart.bring = bring;
    for (uint32_t i = 0; i < EACH; i++)
        shard[i] = value_of(s->step, s->rank * EACH + i);
    for (uint32_t i = 0; i < world.members * EACH; i++)
        params[i] = -value_of(s->step, i);
    struct sgd_checkpoint_part part = {
        .index = s->rank, .parts = world.members, .mark = 2 * s->step, .given_up = &s->given_up, .apart = &apart};
    struct sgd_keep keep = {.newest = world.keep, .hold_from = world.settled ? world.settled : 1};
    s->st = sgd_checkpoint_piece("optimizer.velocity.w", s->rank * EACH, name);
    memcpy(tensor.name, name, sizeof tensor.name);
    folder_of(world.machine_of[s->rank], folder);
    if (s->st.code == MT_OK)
        s->st = sgd_checkpoint_save_part(folder, &meta, &part, &tensor, 1);
    tensor = (struct sgd_tensor){.name = "w", .dtype = SGD_F32, .ndim = 1, .shape = {world.members * EACH}, .data = params};
    if (s->st.code == MT_OK && apart.keeps)
        s->st = sgd_checkpoint_save_with_parts(folder, &keep, &meta, &part, &tensor, 1);
    return NULL;
}

static void save_begin(struct saving *all, uint64_t step)
{
    for (uint32_t r = 0; r < world.members; r++) {
        all[r] = (struct saving){.rank = r, .step = step};
        assert_int_equal(pthread_create(&all[r].thread, NULL, member_save, &all[r]), 0);
    }
}

/* Those of all machines but some, whose parts do not come: the save is given up wherever it waits. */
static void save_but(uint64_t step, uint32_t but)
{
    struct saving all[MEMBERS_MAX];
    for (uint32_t r = 0; r < world.members; r++)
        if (!(but >> world.machine_of[r] & 1)) {
            all[r] = (struct saving){.rank = r, .step = step, .given_up = true};
            assert_int_equal(pthread_create(&all[r].thread, NULL, member_save, &all[r]), 0);
        }
    for (uint32_t r = 0; r < world.members; r++)
        if (!(but >> world.machine_of[r] & 1))
            assert_int_equal(pthread_join(all[r].thread, NULL), 0);
}

static void save(uint64_t step)
{
    struct saving all[MEMBERS_MAX];
    save_begin(all, step);
    for (uint32_t r = 0; r < world.members; r++) {
        assert_int_equal(pthread_join(all[r].thread, NULL), 0);
        assert_int_equal(all[r].st.code, MT_OK);
    }
}

/* ---- loading ---- */

static mt_status load(uint32_t machine, uint64_t *out_step, struct sgd_checkpoint_report *report)
{
    char                  folder[PATH];
    uint64_t              steps[64];
    uint32_t              nodes[MACHINES_MAX];
    struct sgd_checkpoint c;
    struct sgd_elsewhere  others = {.steps = steps, .nodes = nodes, .said = "no answer from node 9", .bring = bring};
    for (uint32_t m = 0; m < world.machines; m++)
        if (m != machine && m != world.lost) {
            others.steps_count += sgd_checkpoint_steps(folder_of(m, folder), steps + others.steps_count, 16);
            nodes[others.nodes_count++] = m + 1;
        }
    mt_status st = sgd_checkpoint_load_with(folder_of(machine, folder), &c, report, &(struct sgd_beat){.beat = NULL}, &others);
    if (st.code != MT_OK)
        return st;
    const struct sgd_tensor *w = sgd_checkpoint_find(&c, "w"), *v = sgd_checkpoint_find(&c, "optimizer.velocity.w");
    assert_true(w && v && c.count == 2 && v->end - v->begin == world.members * EACH * sizeof(float));
    for (uint32_t i = 0; i < world.members * EACH; i++) {
        assert_true(((const float *)v->data)[i] == value_of(c.meta.step, i));
        assert_true(((const float *)w->data)[i] == -value_of(c.meta.step, i));
    }
    *out_step = c.meta.step;
    sgd_checkpoint_fini(&c);
    return mt_ok();
}

static bool has_part(uint32_t machine, uint64_t step, uint32_t part)
{
    char folder[PATH], name[SGD_CHECKPOINT_NAME_SIZE + 16], file[64];
    snprintf(name, sizeof name, "step-%020llu", (unsigned long long)step);
    snprintf(file, sizeof file, "optimizer-%u-of-%u.json", part, world.members);
    return is_at(folder_of(machine, folder), name, file);
}

/* ---- tests ---- */

static void each_part_stands_on_two_and_any_machine_may_be_lost(void **state)
{
    for (uint32_t machines = 2; machines <= MACHINES_MAX; machines++)
        for (uint32_t members = machines; members <= MEMBERS_MAX; members += 4) {
            world_make(*state, machines, members);
            save(7);
            for (uint32_t p = 0; p < members; p++) {
                uint32_t there = 0;
                for (uint32_t m = 0; m < machines; m++)
                    there += has_part(m, 7, p);
                assert_int_equal(there, 2);
            }
            for (world.lost = 0; world.lost < machines; world.lost++) {
                struct sgd_checkpoint_report report;
                uint64_t                     step;
                assert_int_equal(load((world.lost + 1) % machines, &step, &report).code, MT_OK);
                assert_int_equal(step, 7);
                assert_int_equal(report.skipped_count, 0);
            }
        }
}

/* Machines fall back by one save and are cut off in it, others go on: whoever is lost then, something is whole among the rest, and
 * no older than the newest that stood everywhere. */
static void a_machine_lost_in_any_save_leaves_a_whole_one(void **state)
{
    mt_rng rng = {11};
    for (int round = 0; round < 10; round++) {
        struct sgd_checkpoint_report report;
        uint64_t                     settled = 0, step;
        uint32_t                     machines = 2 + (uint32_t)(mt_rng_below(&rng, 3));
        world_make(*state, machines, machines);
        for (uint64_t s = 1; s <= 6; s++) {
            uint32_t behind = s > 1 && mt_rng_below(&rng, 2) ? 1u << mt_rng_below(&rng, machines) : 0;
            world.settled = settled; /* what a run knows by then */
            if (behind)
                save_but(s, behind);
            else
                save(settled = s);
        }
        world.lost = (uint32_t)(mt_rng_below(&rng, machines));
        uint32_t reader = (world.lost + 1) % machines;
        assert_int_equal(load(reader, &step, &report).code, MT_OK);
        assert_true(step >= settled && settled >= 1);
    }
}

static void part_damage(uint32_t machine, uint64_t step, uint32_t part, bool removes)
{
    char folder[PATH], path[2 * PATH];
    snprintf(path, sizeof path, "%s/step-%020llu/optimizer-%u-of-%u.safetensors", folder_of(machine, folder),
             (unsigned long long)step, part, world.members);
    if (removes) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && lseek(fd, -1, SEEK_END) > 0 && write(fd, "\x55", 1) == 1);
    close(fd);
}

static void a_damaged_part_comes_from_its_double(void **state)
{
    for (int removes = 0; removes < 2; removes++) {
        struct sgd_checkpoint_report report;
        uint64_t                     step;
        world_make(*state, 2, 4);
        save(3);
        part_damage(0, 3, 1, removes);
        assert_int_equal(load(0, &step, &report).code, MT_OK);
        world.lost = 1; /* it is whole here since */
        assert_int_equal(load(0, &step, &report).code, MT_OK);
        assert_int_equal(step, 3);
    }
}

static void what_no_machine_has_is_named_and_the_older_one_is_taken(void **state)
{
    struct sgd_checkpoint_report report;
    uint64_t                     step;
    world_make(*state, 3, 3);
    world.keep = 2;
    save(3);
    save(4);
    for (uint32_t m = 0; m < 3; m++)
        if (has_part(m, 4, 2))
            part_damage(m, 4, 2, true);
    assert_int_equal(load(0, &step, &report).code, MT_OK);
    assert_int_equal(step, 3);
    assert_int_equal(report.skipped_count, 1);
    assert_int_equal(report.skipped[0].why.code, MT_ECORRUPT);
    assert_string_equal(report.skipped[0].name, "step-00000000000000000004");
    assert_string_equal(report.skipped[0].tensor, "part 2 of 3; no answer from node 9");
}

static void a_machine_without_a_folder_is_an_error_and_not_a_wait(void **state)
{
    struct saving all[MEMBERS_MAX];
    world_make(*state, 2, 3);
    world.marks[2] = 0;
    save_begin(all, 1);
    for (uint32_t r = 0; r < world.members; r++)
        assert_int_equal(pthread_join(all[r].thread, NULL), 0);
    assert_int_equal(all[0].st.code, MT_ENOENT);
}

static int folder_make(void **state)
{
    return temp_make(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_make, temp_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_part_stands_on_two_and_any_machine_may_be_lost),
        TEST(a_machine_lost_in_any_save_leaves_a_whole_one),
        TEST(a_damaged_part_comes_from_its_double),
        TEST(what_no_machine_has_is_named_and_the_older_one_is_taken),
        TEST(a_machine_without_a_folder_is_an_error_and_not_a_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
