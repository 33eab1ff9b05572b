/* SPDX-License-Identifier: Apache-2.0
 *
 * shutdown.c - manta_shutdown, and what of a job goes with it.
 *
 * Owns:   nothing. Thread: the program's main thread.
 */
#include "clients/lib/shell/ahead/ahead.h"
#include "clients/lib/shell/due/due.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/output/output.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"
#include "clients/lib/start/start.h"
#include "core/base/clock.h"

#include <stdlib.h>

/* What was of the job goes; handles that the user holds stay, as own_close leaves them. Under the lock. */
void lib_session_end(const char *why)
{
    for (size_t i = 0; i < lib.watches.count; i++)
        if (lib.watches.data[i].actor)
            own_actor_drop(&lib.own, lib.watches.data[i].actor);
    mt_vec_fini(&lib.watches);
    memset(lib.unheard, 0, sizeof lib.unheard);
    lib.unheard_more = 0;
    mt_vec_fini(&lib.news);
    mt_vec_fini(&lib.requests);
    lib_ahead_end();
    lib_callbacks_end();
    os_client_fini(&lib.store);
    wrk_fini(&lib.wrk);
    memset(&lib.wrk, 0, sizeof lib.wrk);
    own_close(&lib.own, MT_ECONN, why);
    lib_board_end();
    lib_unmap_shared();
    lib_entries_forget_classes();
    if (lib.has_set_checksum)
        unsetenv("MANTA_CHECKSUM");
    if (lib.has_set_lineage)
        unsetenv("MANTA_LINEAGE_BYTES");
    lib.has_set_checksum = lib.has_set_lineage = false;
    lib.session++;
    lib_broken_set(0, "");
    lib.refused = lib.socket_seen = lib.cpu = 0;
    lib.ticked_ns = lib.checked_ns = lib.trim_at_ns = lib.event_seen = lib.env = 0;
    lib.code[0] = 0;
}

/* A message to nobody comes back from each of these nodes, behind all that its raylet has sent before. */
static void there_and_back(const uint32_t *nodes, size_t count, int64_t deadline_ns)
{
    struct lib_request *requests = calloc(count, sizeof *requests);
    for (size_t i = 0; requests && i < count; i++) {
        struct ctl_message nobody = {.node = nodes[i]};
        if (lib_call_send(&requests[i], CTL_MESSAGE, &nobody, sizeof nobody, NULL))
            count = i;
    }
    for (size_t i = 0; requests && i < count; i++)
        (void)lib_call_await(&requests[i], lib_left_ms(deadline_ns), NULL);
    free(requests);
}

/* What workers have printed comes first. That of this node comes before the raylet's answer. Another node's raylet may see the
 * message before the pipe of a worker that has printed before; when the next one comes its loop has been round, and has read it. */
static void last_lines(void)
{
    struct lib_request *printed = NULL;
    if (lib.output.is_wanted && lib.has_helper && !lib.inlined && !lib.broken)
        printed = malloc(sizeof *printed);
    if (printed && lib_call(printed, CTL_PRINTED, NULL, 0, MT_LIB_SHUTDOWN_MS, NULL) == MANTA_OK) {
        const uint8_t *nodes = printed->payload + sizeof(struct ctl_reply);
        size_t         count = (printed->size - sizeof(struct ctl_reply)) / sizeof(uint32_t);
        int64_t        deadline_ns = lib_deadline(MT_LIB_OUTPUT_LINGER_MS);
        for (int round = 0; count && round < 2; round++)
            there_and_back((const uint32_t *)(const void *)nodes, count, deadline_ns);
    }
    free(printed);
}

/* Other threads that wait in a call hear that there is nothing to wait for, and leave; one that does not within the limit is in
 * a function of the user's. */
static void others_leave(void)
{
    uint64_t limit = lib_now_ns() + (uint64_t)MT_LIB_SHUTDOWN_MS * 1000000u;
    if (lib.inlined)
        return;
    if (!lib.broken)
        lib_broken_set(MT_ECONN, "manta_shutdown was called");
    while ((lib.is_led || lib.follower_count) && lib_now_ns() < limit) {
        shm_add32(&lib.park->bell, 1);
        shm_futex_wake(&lib.park->bell, INT32_MAX);
        lib_wake_all(&lib.followers);
        lib_unlock();
        mt_sleep_ms(1);
        lib_lock();
    }
}

int manta_shutdown(void)
{
    struct ctl_reply bye = {0};
    char             why[sizeof lib.broken_text];
    manta_status     code = lib_enter(NULL);
    if (code)
        return code == MANTA_EFORKED || code == MANTA_EDEADLK ? code : 0; /* done before, or nothing to do */
    if (lib.role != LIB_DRIVER) {
        lib_unlock();
        return 0;
    }
    last_lines();
    others_leave();
    lib_helper_stop();
    lib_unheard_tell(true);
    lib_output_print(true);
    if (lib.inlined)
        lib_inline_stop();
    own_send(&lib.own, CTL_SHUTDOWN, own_id_next(&lib.own), &bye, sizeof bye);
    if (lib.socket >= 0)
        lib_act();
    lib_close();
    lib_disconnect();
    lib_unlock();
    lib_private_stop();
    lib_lock();
    snprintf(why, sizeof why, "%s", lib.broken ? lib.broken_text : "manta_shutdown was called");
    lib_session_end(why);
    lib_unlock();
    return 0;
}
