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
        struct ctl_segment drop = {.segment = lib.wrk.boards_gone.data[i].board};
        munmap(lib.wrk.boards_gone.data[i].memory, LIB_BOARD_BYTES);
        own_send(&lib.own, CTL_REGION_DROP, own_id_next(&lib.own), &drop, sizeof drop);
    }
    lib.wrk.boards_gone.count = 0;
    uint32_t number = wrk_board_asked(&lib.wrk);
    if (!number || lib.broken)
        return;
    struct ctl_segment  want = {.segment = number}, got = {.segment = number};
    struct lib_request *request = calloc(1, sizeof *request);
    void               *memory = NULL;
    wrk_flush(&lib.wrk); /* the answer may take its time */
    if (request && lib_call(request, CTL_REGION_WANT, &want, sizeof want, MT_LIB_REQUEST_MS, NULL) == MANTA_OK)
        memory = lib_board_map(request, &got);
    free(request);
    wrk_board_open(&lib.wrk, number, memory, OWN_EDGE_CELLS);
}
