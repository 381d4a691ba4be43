/* target_section.c -- the two parts of a target's section.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plan/plan.h"

size_t cm_plan_target_text(const cm_plan_target *t)
{
    const char *end = t->n ? memchr(t->bytes, 0, t->n) : NULL;
    return end ? (size_t)(end - (const char *)t->bytes) : t->n;
}

const void *cm_plan_target_images(const cm_plan_target *t, size_t *n)
{
    size_t text = cm_plan_target_text(t);
    if (text == t->n)
        return NULL;
    *n = t->n - text - 1;
    return (const char *)t->bytes + text + 1;
}
