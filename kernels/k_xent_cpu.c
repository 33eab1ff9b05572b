/* SPDX-License-Identifier: Apache-2.0
 *
 * k_xent_cpu.c - softmax and cross-entropy of class scores. Owns nothing. Thread: any.
 */
#include "kernels/k_private.h"

#include <math.h>

/* Subtracts the largest score first, so that expf never overflows; a row of scores that are not finite gives
 * a loss that is not finite, which is for the caller to see. */
static void row_forward(const float *logits, float *probs, float *loss, size_t classes, size_t label)
{
    float largest = logits[0], sum = 0.0f;

    MT_ASSERT(label < classes);
    for (size_t c = 1; c < classes; c++)
        largest = logits[c] > largest ? logits[c] : largest;
    for (size_t c = 0; c < classes; c++) {
        probs[c] = expf(logits[c] - largest);
        sum += probs[c];
    }
    for (size_t c = 0; c < classes; c++)
        probs[c] /= sum;
    *loss = logf(sum) - (logits[label] - largest);
}

mt_status k_xent_forward_cpu(struct k_stream *stream, const struct k_xent *xent)
{
    (void)stream;
    for (size_t r = 0; r < xent->rows; r++)
        row_forward(xent->logits + r * xent->classes, xent->probs + r * xent->classes, xent->losses + r,
                    xent->classes, xent->labels[r]);
    return mt_ok();
}

mt_status k_xent_backward_cpu(struct k_stream *stream, const struct k_xent *xent)
{
    (void)stream;
    for (size_t r = 0; r < xent->rows; r++) {
        const float *probs = xent->probs + r * xent->classes;
        float *grads = xent->grads + r * xent->classes;
        for (size_t c = 0; c < xent->classes; c++)
            grads[c] = (probs[c] - (c == xent->labels[r] ? 1.0f : 0.0f)) * xent->scale;
    }
    return mt_ok();
}
