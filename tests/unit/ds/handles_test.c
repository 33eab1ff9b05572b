/* SPDX-License-Identifier: Apache-2.0
 *
 * handles_test.c - what a handle tells from a living one: closed, of another kind, forged, another thread's, a forked process's.
 */
#include "core/ds/handles.h"
#include "tests/unit/base/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER_KIND = MT_HANDLE_CLIENT + 1, MANY = 100 };

static int enter(struct mt_handles *h, const void *handle, void **out)
{
    return mt_handle_enter(h, MT_HANDLE_CLIENT, handle, out).code;
}

static void *made(struct mt_handles *h, void *object)
{
    void *handle = NULL;
    assert_int_equal(mt_handle_new(h, MT_HANDLE_CLIENT, object, &handle).code, MT_OK);
    assert_non_null(handle);
    return handle;
}

static void done(struct mt_handles *h)
{
    for (int i = 0; i < MT_HANDLE_BLOCKS; i++)
        free(h->blocks[i]);
}

static void a_handle_names_its_object_until_it_is_closed(void **state)
{
    struct mt_handles h = MT_HANDLES_INIT;
    int               objects[MANY];
    void             *handles[MANY], *object;
    (void)state;
    for (int i = 0; i < MANY; i++)
        handles[i] = made(&h, &objects[i]);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(enter(&h, handles[i], &object), MT_OK);
        assert_ptr_equal(object, &objects[i]);
        assert_null(mt_handle_leave(&h, handles[i]));
        assert_ptr_equal(mt_handle_look(&h, MT_HANDLE_CLIENT, handles[i]), &objects[i]);
        assert_null(mt_handle_look(&h, (enum mt_handle_kind)OTHER_KIND, handles[i]));
        assert_null(mt_handle_close(&h, (enum mt_handle_kind)OTHER_KIND, handles[i]));
        assert_ptr_equal(mt_handle_close(&h, MT_HANDLE_CLIENT, handles[i]), &objects[i]);
        assert_null(mt_handle_close(&h, MT_HANDLE_CLIENT, handles[i]));
        assert_int_equal(enter(&h, handles[i], &object), MT_EHANDLE);
        assert_null(mt_handle_look(&h, MT_HANDLE_CLIENT, handles[i]));
    }
    void *next = made(&h, &objects[0]); /* in an old one's place */
    assert_int_equal(h.count, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_ptr_not_equal(next, handles[i]);
        assert_int_equal(enter(&h, handles[i], &object), MT_EHANDLE);
        assert_null(mt_handle_look(&h, MT_HANDLE_CLIENT, handles[i]));
    }
    done(&h);
}

static void what_never_was_one_is_refused(void **state)
{
    struct mt_handles h = MT_HANDLES_INIT;
    int               thing;
    void             *object, *handle;
    (void)state;
    assert_int_equal(enter(&h, NULL, &object), MT_EINVAL);
    assert_int_equal(enter(&h, &thing, &object), MT_EHANDLE);
    handle = made(&h, &thing);
    assert_int_equal(enter(&h, &thing, &object), MT_EHANDLE);
    assert_int_equal(mt_handle_enter(&h, (enum mt_handle_kind)OTHER_KIND, handle, &object).code, MT_EHANDLE);
    for (uintptr_t bit = 0; bit < 64; bit++) {
        void *forged = (void *)((uintptr_t)handle ^ (uintptr_t)1 << bit);
        assert_int_equal(enter(&h, forged, &object), MT_EHANDLE);
        assert_null(mt_handle_look(&h, MT_HANDLE_CLIENT, forged));
    }
    assert_null(mt_handle_look(&h, MT_HANDLE_CLIENT, NULL));
    assert_null(mt_handle_look(&h, (enum mt_handle_kind)0, NULL));
    assert_null(mt_handle_look(&h, MT_HANDLE_CLIENT, (void *)UINTPTR_MAX));
    assert_null(mt_handle_leave(&h, &thing));
    assert_null(mt_handle_close(&h, MT_HANDLE_CLIENT, NULL));
    done(&h);
}

static void what_is_closed_inside_a_call_lives_until_its_end(void **state)
{
    struct mt_handles h = MT_HANDLES_INIT;
    int               thing;
    void             *object, *handle = made(&h, &thing);
    (void)state;
    assert_int_equal(enter(&h, handle, &object), MT_OK);
    assert_int_equal(enter(&h, handle, &object), MT_OK); /* from a callback */
    assert_null(mt_handle_close(&h, MT_HANDLE_CLIENT, handle));
    assert_null(mt_handle_close(&h, MT_HANDLE_CLIENT, handle));
    assert_int_equal(enter(&h, handle, &object), MT_EHANDLE);
    assert_null(mt_handle_leave(&h, handle));
    assert_ptr_equal(mt_handle_leave(&h, handle), &thing);
    assert_null(mt_handle_leave(&h, handle));
    done(&h);
}

struct
try {
    struct mt_handles *h;
    void              *handle;
    int                code;
};
static void *try_it(void *arg)
{
    struct try *t = arg;
    void       *object;
    t->code = enter(t->h, t->handle, &object);
    if (t->code == MT_OK)
        (void)mt_handle_leave(t->h, t->handle);
    return NULL;
}
static int tried_by_another(struct mt_handles *h, void *handle)
{
    struct try t = {.h = h, .handle = handle};
    pthread_t  thread;
    assert_int_equal(pthread_create(&thread, NULL, try_it, &t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return t.code;
}

static void one_thread_at_a_time(void **state)
{
    struct mt_handles h = MT_HANDLES_INIT;
    int               thing;
    void             *object, *handle = made(&h, &thing);
    (void)state;
    assert_int_equal(tried_by_another(&h, handle), MT_OK);
    assert_int_equal(enter(&h, handle, &object), MT_OK);
    assert_int_equal(tried_by_another(&h, handle), MT_EAGAIN);
    assert_null(mt_handle_leave(&h, handle));
    assert_int_equal(tried_by_another(&h, handle), MT_OK);
    done(&h);
}

/* Looked up while others come and go: the object, or nothing, and never another's. */
struct crowd {
    struct mt_handles h;
    int               objects[2];
    _Atomic(void *)   handle;
    atomic_bool       is_over;
};
static void *looks(void *arg)
{
    struct crowd *c = arg;
    while (!c->is_over) {
        const void *object = mt_handle_look(&c->h, MT_HANDLE_CLIENT, c->handle);
        if (object && object != &c->objects[0])
            abort();
    }
    return NULL;
}
static void looked_up_while_others_come_and_go(void **state)
{
    static struct crowd c = {.h = MT_HANDLES_INIT};
    pthread_t           thread;
    void               *other;
    (void)state;
    c.handle = made(&c.h, &c.objects[0]);
    assert_int_equal(pthread_create(&thread, NULL, looks, &c), 0);
    for (int i = 0; i < 100000; i++) { /* one slot, by turns */
        assert_ptr_equal(mt_handle_close(&c.h, MT_HANDLE_CLIENT, c.handle), &c.objects[0]);
        other = made(&c.h, &c.objects[1]);
        assert_ptr_equal(mt_handle_close(&c.h, MT_HANDLE_CLIENT, other), &c.objects[1]);
        c.handle = made(&c.h, &c.objects[0]);
    }
    c.is_over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    done(&c.h);
}

static void a_forked_process_has_none(void **state)
{
    struct mt_handles h = MT_HANDLES_INIT;
    int               thing, status;
    void             *object;
    (void)state;
    assert_int_equal(mt_handles_usable(&h).code, MT_OK);
    void *handle = made(&h, &thing);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_mutex_lock(&h.lock); /* as another thread may have had it */
        bool ok = mt_handles_usable(&h).code == MT_EFORKED && enter(&h, handle, &object) == MT_EFORKED &&
                  mt_handle_new(&h, MT_HANDLE_CLIENT, &thing, &object).code == MT_EFORKED &&
                  !mt_handle_close(&h, MT_HANDLE_CLIENT, handle);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(enter(&h, handle, &object), MT_OK);
    done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_names_its_object_until_it_is_closed),
        cmocka_unit_test(what_never_was_one_is_refused),
        cmocka_unit_test(what_is_closed_inside_a_call_lives_until_its_end),
        cmocka_unit_test(one_thread_at_a_time),
        cmocka_unit_test(looked_up_while_others_come_and_go),
        cmocka_unit_test(a_forked_process_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
