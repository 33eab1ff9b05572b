/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi_test.c - PMI-1 as a client sees it: what each line gets, barriers of one node and of two, and what is no PMI.
 */
#include "clients/gang/pmi/pmi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void says(struct gng_pmi *p, int rank, const char *line, const char *answer)
{
    mt_buf *out = &p->ranks[rank - p->first].out;
    out->size = 0;
    assert_int_equal(gng_pmi_take(p, rank, mt_view_text(line)).code, 0);
    assert_int_equal(mt_buf_terminate(out).code, 0);
    assert_string_equal(out->data ? (const char *)out->data : "", answer);
}

static void begin(struct gng_pmi *p, int first, int local, int size)
{
    assert_int_equal(gng_pmi_init(p, first, local, size, "(vector,(0,1,2))", "space-1").code, 0);
    for (int i = first; i < first + local; i++)
        says(p, i, "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
}

static void puts_and_gets(void **state)
{
    (void)state;
    struct gng_pmi p;
    char           line[MT_GANG_PMI_LINE_BYTES];
    begin(&p, 0, 2, 2);
    says(&p, 0, "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=space-1\n");
    says(&p, 0, "cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    says(&p, 0, "cmd=get kvsname=manta key=PMI_process_mapping\n", "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
    says(&p, 0, "cmd=put kvsname=manta key=a value=x=1\n", "cmd=put_result rc=0 msg=success\n");
    says(&p, 0, "cmd=put kvsname=manta key=a value=2\n", "cmd=put_result rc=-1 msg=duplicate_key_a\n");
    says(&p, 0, "cmd=put kvsname=manta key=b\n", "cmd=put_result rc=-1 msg=value_missing_or_too_long\n");
    snprintf(line, sizeof line, "cmd=put key=long value=%01024d\n", 0);
    says(&p, 0, line, "cmd=put_result rc=-1 msg=value_missing_or_too_long\n");
    snprintf(line, sizeof line, "cmd=put key=%064d value=1\n", 0);
    says(&p, 0, line, "cmd=put_result rc=-1 msg=key_missing_or_too_long\n");
    says(&p, 0, "cmd=barrier_in\n", "");
    says(&p, 1, "cmd=barrier_", ""); /* in two parts */
    says(&p, 1, "in\n", "cmd=barrier_out\n");
    says(&p, 1, "cmd=get kvsname=manta key=a\n", "cmd=get_result rc=0 msg=success value=x=1\n");
    says(&p, 1, "cmd=put kvsname=manta key=after value=2\n", "cmd=put_result rc=0 msg=success\n");
    says(&p, 1, "cmd=get kvsname=manta key=none\n", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    says(&p, 1, "mcmd=spawn\nnprocs=2\ncmd=init\nendcmd\n", "cmd=spawn_result rc=-1 msg=unsupported\n");
    says(&p, 0, "cmd=finalize\n", "cmd=finalize_ack\n");
    assert_int_equal(gng_pmi_end(&p, 0).code, 0);
    assert_int_equal(p.fault_rank, -1);
    gng_pmi_fini(&p);
}

static void two_nodes(void **state)
{
    (void)state;
    struct gng_pmi a, b;
    begin(&a, 0, 1, 2);
    begin(&b, 1, 1, 2);
    says(&a, 0, "cmd=put kvsname=manta key=a value=1\ncmd=barrier_in\n", "cmd=put_result rc=0 msg=success\n");
    assert_true(a.wants_fence && a.fence.size == 4);
    says(&b, 1, "cmd=barrier_in\n", "");
    assert_true(b.wants_fence && b.fence.size == 0);
    b.wants_fence = false;
    assert_int_equal(gng_pmi_fenced(&b, mt_buf_view(&a.fence)).code, 0);
    assert_memory_equal(b.ranks[0].out.data, "cmd=barrier_out\n", 16);
    says(&b, 1, "cmd=get kvsname=manta key=a\n", "cmd=get_result rc=0 msg=success value=1\n");
    says(&b, 1, "cmd=barrier_in\n", "");
    assert_true(b.wants_fence && b.fence.size == 0); /* what came from others is not told again */
    gng_pmi_fini(&a);
    gng_pmi_fini(&b);
}

static void faulty(const char *lines, int code, const char *why)
{
    struct gng_pmi p;
    assert_int_equal(gng_pmi_init(&p, 3, 1, 1, "", "space-1").code, 0);
    assert_int_equal(gng_pmi_take(&p, 3, mt_view_text(lines)).code, 0);
    assert_int_equal(gng_pmi_end(&p, 3).code, 0);
    assert_int_equal(p.fault_rank, 3);
    assert_int_equal(p.fault_code, code);
    if (!strstr(p.fault, why))
        fail_msg("\"%s\" does not say \"%s\"", p.fault, why);
    gng_pmi_fini(&p);
}

static void faults(void **state)
{
    (void)state;
    static char long_line[MT_GANG_PMI_LINE_BYTES + 8];
    memset(long_line, 'a', sizeof long_line - 1);
    faulty("rubbish\n", -1, "no PMI-1 here: \"rubbish\"");
    faulty("cmd=put key=a value=b\n", -1, "no PMI-1 here"); /* before init */
    faulty("cmd=init pmi_version=1\ncmd=init pmi_version=1\n", -1, "no PMI-1 here");
    faulty("cmd=init pmi_version=1\ncmd=barrier_in\n", -1, "without MPI_Finalize");
    faulty("cmd=init pmi_version=1\n", -1, "without MPI_Finalize");
    faulty("cmd=abort exitcode=9\n", 9, "MPI_Abort"); /* before init as well */
    faulty(long_line, -1, "a line of more than");
}

/* One ends before it has begun, and another waits for it. */
static void one_never_comes(void **state)
{
    (void)state;
    struct gng_pmi p;
    assert_int_equal(gng_pmi_init(&p, 0, 2, 2, "", "space-1").code, 0);
    assert_int_equal(gng_pmi_end(&p, 1).code, 0);
    assert_int_equal(p.fault_rank, -1); /* it may be no program of MPI, and the other neither */
    assert_int_equal(gng_pmi_take(&p, 0, mt_view_text("cmd=init pmi_version=1\ncmd=barrier_in\n")).code, 0);
    assert_true(p.fault_rank == 1 && p.is_end);
    gng_pmi_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(puts_and_gets), cmocka_unit_test(two_nodes), cmocka_unit_test(faults),
                                       cmocka_unit_test(one_never_comes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
