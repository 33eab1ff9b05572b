/* SPDX-License-Identifier: Apache-2.0
 *
 * env.c - who is where in a gang, and what each rank is told of it in the words of its framework. See plan.h.
 *
 * Owns: the lists of a layout.
 */
#include "clients/gang/plan/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the layout ---- */

mt_status gng_layout_make(struct gng_layout *out, const struct gng_place *of, int count)
{
    int rank = 0;
    *out = (struct gng_layout){.of = calloc((size_t)count, sizeof *out->of), .member = calloc((size_t)count, sizeof(int))};
    if (!out->of || !out->member) {
        gng_layout_fini(out);
        return mt_error(MT_ENOMEM, 0, "give out ranks");
    }
    memcpy(out->of, of, (size_t)count * sizeof *of);
    for (int i = 0; i < count; i++)
        out->of[i].rank = -1;
    out->count = count;
    for (int first = 0; first < count; first++) {
        int local = 0;
        if (out->of[first].rank >= 0)
            continue;
        for (int i = first; i < count; i++) {
            if (out->of[i].seat.node != out->of[first].seat.node || out->of[i].rank >= 0)
                continue;
            out->of[i].node_rank = out->nodes;
            out->of[i].local_rank = local++;
            out->member[rank] = i;
            out->of[i].rank = rank++;
        }
        out->nodes++;
    }
    return mt_ok();
}

void gng_layout_fini(struct gng_layout *layout)
{
    free(layout->of);
    free(layout->member);
    *layout = (struct gng_layout){0};
}

int gng_layout_local(const struct gng_layout *layout, int member)
{
    int n = 0;
    for (int i = 0; i < layout->count; i++)
        n += layout->of[i].seat.node == layout->of[member].seat.node;
    return n;
}

/* ---- texts ---- */

static mt_status text_put(mt_buf *out, const char *format, ...) MT_PRINTF(2, 3);
static mt_status text_put(mt_buf *out, const char *format, ...)
{
    char    text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return n < 0 || (size_t)n >= sizeof text ? mt_error(MT_EINVAL, 0, "name a rank") : mt_buf_append(out, text, (size_t)n + 1);
}

const char *gng_layout_address(const struct gng_layout *l, int member)
{
    const char *address = l->of[member].address;
    return l->nodes > 1 && address[0] ? address : "127.0.0.1";
}

/* A program of torch or Horovod takes the device of its local rank: so each sees those of all ranks of its node, in their order. */
static mt_status devices_put(mt_buf *out, const struct gng_layout *l, int member)
{
    bool is_first = true;
    MT_TRY(mt_buf_printf(out, "CUDA_VISIBLE_DEVICES="));
    for (int rank = 0; rank < l->count; rank++) {
        const struct gng_place *p = &l->of[l->member[rank]];
        if (p->seat.node != l->of[member].seat.node || !p->seat.devices[0])
            continue;
        MT_TRY(mt_buf_printf(out, "%s%s", is_first ? "" : ",", p->seat.devices));
        is_first = false;
    }
    return mt_buf_append(out, "", 1);
}

/* ---- frameworks ---- */

/* As torchrun sets them (torch/distributed/elastic/agent/server/local_elastic_agent.py). Rank 0 serves the store itself. */
static mt_status torch_put(mt_buf *out, const struct gng_plan *plan, const struct gng_layout *l, int member, const char *run_id,
                           int restarts)
{
    const struct gng_place *p = &l->of[member];
    int                     local = gng_layout_local(l, member);
    MT_TRY(text_put(out, "RANK=%d", p->rank));
    MT_TRY(text_put(out, "WORLD_SIZE=%d", l->count));
    MT_TRY(text_put(out, "LOCAL_RANK=%d", p->local_rank));
    MT_TRY(text_put(out, "LOCAL_WORLD_SIZE=%d", local));
    MT_TRY(text_put(out, "GROUP_RANK=%d", p->node_rank));
    MT_TRY(text_put(out, "GROUP_WORLD_SIZE=%d", l->nodes));
    MT_TRY(text_put(out, "ROLE_NAME=default"));
    MT_TRY(text_put(out, "ROLE_RANK=%d", p->rank));
    MT_TRY(text_put(out, "ROLE_WORLD_SIZE=%d", l->count));
    MT_TRY(text_put(out, "MASTER_ADDR=%s", gng_layout_address(l, l->member[0])));
    MT_TRY(text_put(out, "MASTER_PORT=%d", l->of[l->member[0]].seat.port));
    MT_TRY(text_put(out, "TORCHELASTIC_RESTART_COUNT=%d", restarts));
    MT_TRY(text_put(out, "TORCHELASTIC_MAX_RESTARTS=%d", plan->max_restarts));
    MT_TRY(text_put(out, "TORCHELASTIC_RUN_ID=%s", run_id));
    MT_TRY(text_put(out, "TORCHELASTIC_USE_AGENT_STORE=False"));
    MT_TRY(text_put(out, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"));
    if (local > 1)
        MT_TRY(text_put(out, "OMP_NUM_THREADS=%d", plan->cpus >= 2 ? (int)plan->cpus : 1));
    return l->of[member].seat.devices[0] ? devices_put(out, l, member) : mt_ok();
}

/* Ranks in this order: the chief, workers, parameter servers, the evaluator, who is no part of the cluster. */
enum role { CHIEF, WORKER, SERVER, EVALUATOR, ROLES };
static const char *const role_words[] = {[CHIEF] = "chief", [WORKER] = "worker", [SERVER] = "ps", [EVALUATOR] = "evaluator"};

/* The first rank of a role. */
static int role_first(const struct gng_plan *plan, enum role role, int size)
{
    int first[ROLES + 1] = {0, plan->chiefs, size - plan->evaluators - plan->servers, size - plan->evaluators, size};
    return first[role];
}

static enum role role_of(const struct gng_plan *plan, int rank, int size)
{
    enum role role = EVALUATOR;
    while (role > CHIEF && rank < role_first(plan, role, size))
        role--;
    return role;
}

bool gng_role_serves(const struct gng_plan *plan, int rank, int size)
{
    return plan->as == GNG_AS_TF && plan->servers && role_of(plan, rank, size) != (plan->chiefs ? CHIEF : WORKER);
}

/* Where no chief is named, worker 0 is the chief, as MultiWorkerMirroredStrategy has it. */
static mt_status tf_put(mt_buf *out, const struct gng_plan *plan, const struct gng_layout *l, int member)
{
    int       mine = l->of[member].rank;
    enum role role = role_of(plan, mine, l->count);
    bool      is_first = true;
    MT_TRY(mt_buf_printf(out, "TF_CONFIG={\"cluster\":{"));
    for (int rank = 0; rank < role_first(plan, EVALUATOR, l->count); rank++) {
        const char *address = gng_layout_address(l, l->member[rank]);
        bool        is_v6 = strchr(address, ':') != NULL;
        enum role   of = role_of(plan, rank, l->count);
        if (rank == role_first(plan, of, l->count)) {
            MT_TRY(mt_buf_printf(out, "%s\"%s\":[", is_first ? "" : "],", role_words[of]));
            is_first = false;
        } else {
            MT_TRY(mt_buf_printf(out, ","));
        }
        MT_TRY(mt_buf_printf(out, "\"%s%s%s:%d\"", is_v6 ? "[" : "", address, is_v6 ? "]" : "", l->of[l->member[rank]].seat.port));
    }
    MT_TRY(mt_buf_printf(out, "]},\"task\":{\"type\":\"%s\",\"index\":%d}}", role_words[role],
                         mine - role_first(plan, role, l->count)));
    return mt_buf_append(out, "", 1);
}

/* As mpiexec.hydra sets them; PMI_FD is the shepherd's to say. */
static mt_status pmi_put(mt_buf *out, const struct gng_layout *l, int member)
{
    MT_TRY(text_put(out, "PMI_RANK=%d", l->of[member].rank));
    MT_TRY(text_put(out, "PMI_SIZE=%d", l->count));
    MT_TRY(text_put(out, "MPI_LOCALRANKID=%d", l->of[member].local_rank));
    return text_put(out, "MPI_LOCALNRANKS=%d", gng_layout_local(l, member));
}

/* Ranks with that place on their node, on nodes before this one. */
static int cross_rank(const struct gng_layout *l, int member, int nodes)
{
    int n = 0;
    for (int i = 0; i < l->count; i++)
        n += l->of[i].local_rank == l->of[member].local_rank && l->of[i].node_rank < nodes;
    return n;
}

/* As horovodrun sets them (horovod/runner/gloo_run.py). Its client puts the address into a URL as it is, and so shows the secret;
   HOROVOD_GLOO_IFACE is said by the rank's supervisor, who sees the node's interfaces. */
static mt_status horovod_put(mt_buf *out, const struct gng_layout *l, int member)
{
    const struct gng_place *p = &l->of[member];
    int                     port = l->of[l->member[0]].seat.port;
    MT_TRY(text_put(out, "HOROVOD_HOSTNAME=node-%d", p->node_rank));
    MT_TRY(text_put(out, "HOROVOD_RANK=%d", p->rank));
    MT_TRY(text_put(out, "HOROVOD_SIZE=%d", l->count));
    MT_TRY(text_put(out, "HOROVOD_LOCAL_RANK=%d", p->local_rank));
    MT_TRY(text_put(out, "HOROVOD_LOCAL_SIZE=%d", gng_layout_local(l, member)));
    MT_TRY(text_put(out, "HOROVOD_CROSS_RANK=%d", cross_rank(l, member, p->node_rank)));
    MT_TRY(text_put(out, "HOROVOD_CROSS_SIZE=%d", cross_rank(l, member, l->nodes)));
    MT_TRY(text_put(out, "HOROVOD_CONTROLLER=gloo"));
    MT_TRY(text_put(out, "HOROVOD_CPU_OPERATIONS=gloo"));
    MT_TRY(text_put(out, "HOROVOD_GLOO_RENDEZVOUS_ADDR=%s:%d/%s", gng_layout_address(l, l->member[0]), port, l->secret));
    MT_TRY(text_put(out, "HOROVOD_GLOO_RENDEZVOUS_PORT=%d", port));
    return p->seat.devices[0] ? devices_put(out, l, member) : mt_ok();
}

mt_status gng_mapping_put(mt_buf *out, const struct gng_layout *l)
{
    MT_TRY(mt_buf_printf(out, "(vector"));
    for (int rank = 0, node = 0; rank < l->count;) { /* nodes behind each other with as many ranks each are one block */
        int local = gng_layout_local(l, l->member[rank]), nodes = 1;
        rank += local;
        while (rank < l->count && gng_layout_local(l, l->member[rank]) == local)
            nodes++, rank += local;
        MT_TRY(mt_buf_printf(out, ",(%d,%d,%d)", node, nodes, local));
        node += nodes;
    }
    return mt_buf_printf(out, ")");
}

/* Of every gang. */
static mt_status own_put(mt_buf *out, const struct gng_layout *l, int member, const char *run_id, int restarts)
{
    MT_TRY(text_put(out, "MANTA_GANG=%s", run_id));
    MT_TRY(text_put(out, "MANTA_GANG_RANK=%d", l->of[member].rank));
    MT_TRY(text_put(out, "MANTA_GANG_SIZE=%d", l->count));
    MT_TRY(text_put(out, "MANTA_GANG_LOCAL_RANK=%d", l->of[member].local_rank));
    MT_TRY(text_put(out, "MANTA_GANG_LOCAL_SIZE=%d", gng_layout_local(l, member)));
    MT_TRY(text_put(out, "MANTA_GANG_NODE=%d", l->of[member].node_rank));
    MT_TRY(text_put(out, "MANTA_GANG_NODES=%d", l->nodes));
    return text_put(out, "MANTA_GANG_RESTARTS=%d", restarts);
}

mt_status gng_env_put(mt_buf *out, const struct gng_plan *plan, const struct gng_layout *layout, int member, const char *run_id,
                      int restarts)
{
    MT_TRY(own_put(out, layout, member, run_id, restarts));
    switch (plan->as) {
    case GNG_AS_TORCH: MT_TRY(torch_put(out, plan, layout, member, run_id, restarts)); break;
    case GNG_AS_TF: MT_TRY(tf_put(out, plan, layout, member)); break;
    case GNG_AS_PMI1: MT_TRY(pmi_put(out, layout, member)); break;
    case GNG_AS_HOROVOD: MT_TRY(horovod_put(out, layout, member)); break;
    case GNG_AS_NONE: break;
    }
    if (gng_plan_meets(plan) && layout->nodes > 1)
        MT_TRY(text_put(out, "MANTA_TORCH_PEERS=%s", gng_layout_address(layout, member)));
    for (const char *const *e = plan->env; e && *e; e++) /* the user's words are the last */
        MT_TRY(mt_buf_append(out, *e, strlen(*e) + 1));
    return mt_ok();
}
