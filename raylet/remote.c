#include "raylet/state.h"
void rlt_remote_request(struct rlt *r, struct rlt_class *c, uint32_t node)
{
    (void)r; (void)c; (void)node;
}
