/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The dense kernel's loop in C: hinge loss, one active pair a step, owed-weight average, projection
 * onto a ball. Compiled with -DREAL=double or float and -DAHEAD=pairs to prefetch (0 for none).
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

void descend(const REAL *restrict X, const double *restrict y, size_t d,
             const int32_t *restrict left, const int32_t *restrict right,
             const double *restrict step_sizes, const double *restrict paid,
             const int32_t *restrict active, ptrdiff_t n_active, REAL *restrict w,
             REAL *restrict weighted_sum, double *restrict state, double radius, double margin)
{
    const REAL radius_squared = (REAL)(radius * radius);
    double base = state[0];
    for (ptrdiff_t p = 0; p < n_active; p++) {
        const int32_t t = active[p];
        const REAL *restrict a = X + (size_t)left[t] * d;
        const REAL *restrict b = X + (size_t)right[t] * d;
#if AHEAD > 0
        if (p + AHEAD < n_active) {
            const int32_t ahead = active[p + AHEAD];
            const char *next_a = (const char *)(X + (size_t)left[ahead] * d);
            const char *next_b = (const char *)(X + (size_t)right[ahead] * d);
            const size_t bytes = d * sizeof(REAL) < 512 ? d * sizeof(REAL) : 512;
            for (size_t k = 0; k < bytes; k += 64) {
                __builtin_prefetch(next_a + k, 0, 3);
                __builtin_prefetch(next_b + k, 0, 3);
            }
        }
#endif
        REAL score = 0;
        for (size_t k = 0; k < d; k++)
            score += w[k] * (a[k] - b[k]);
        const double sign = y[left[t]] > y[right[t]] ? 1.0 : -1.0;
        if (!(sign * (double)score < margin))
            continue;
        const REAL step = (REAL)(-sign * step_sizes[t]);
        const REAL owed = (REAL)(paid[t] - base);
        base = paid[t];
        REAL norm_squared = 0;
        for (size_t k = 0; k < d; k++) {
            REAL w_k = w[k];
            weighted_sum[k] += owed * w_k;
            w_k -= step * (a[k] - b[k]);
            w[k] = w_k;
            norm_squared += w_k * w_k;
        }
        if (norm_squared > radius_squared) {
            const REAL shrink = (REAL)(radius / sqrt((double)norm_squared));
            for (size_t k = 0; k < d; k++)
                w[k] *= shrink;
        }
    }
    state[0] = base;
}
