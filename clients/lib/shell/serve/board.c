/* SPDX-License-Identifier: Apache-2.0
 *
 * board.c - a worker maps the cells that records name (../wait/board.c is their owner's end).
 *
 * Owns:   nothing; what is mapped stands in lib.wrk, once for each lane. Thread: the one that runs tasks, under the owner lock.
 */
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/serve/serve.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>
#include <sys/mman.h>

void lib_board_serve(void)
{
    for (size_t i = 0; i < lib.wrk.boards_gone.count; i++) {
        struct ctl_segment drop = {.segment = lib.wrk.boards_gone.data[i].region};
        munmap(lib.wrk.boards_gone.data[i].memory, LIB_BOARD_BYTES);
        own_send(&lib.own, CTL_REGION_DROP, own_id_next(&lib.own), &drop, sizeof drop);
    }
    lib.wrk.boards_gone.count = 0;
    const struct wrk_lane *lane = wrk_board_asked(&lib.wrk);
    if (!lane || lib.broken)
        return;
    uint64_t               lease = lane->lease;
    struct ctl_region_want want = {.segment = {.segment = lane->board_asked, .size = LIB_BOARD_BYTES}, .owner = lane->owner};
    struct ctl_segment     got = {0};
    struct wrk_board       board = {.count = OWN_EDGE_CELLS};
    struct lib_request    *request = calloc(1, sizeof *request);
    wrk_flush(&lib.wrk); /* the answer may take its time, and the lane may end meanwhile */
    if (request && lib_call(request, CTL_REGION_WANT, &want, sizeof want, MT_LIB_REQUEST_MS, NULL) == MANTA_OK)
        board.memory = lib_board_map(request, &got);
    free(request);
    board.region = got.segment;
    wrk_board_open(&lib.wrk, lease, &board);
}
