/* close.h -- is what was found close to what was wanted?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_CLOSE_H
#define CM_CLI_CLOSE_H

#include "plan/tensor.h"

typedef struct cm_tolerance {
    double rtol, atol; /* |found - wanted| <= atol + rtol * |wanted| */
    double scale_atol; /* more atol: this times the largest finite |wanted| */
    bool shape_only;   /* random results: type, shape and range are checked, not values */
} cm_tolerance;

/* True when close. Else `why` says the worst element, found and wanted. rtol is widened to two units
 * in the last place for element types coarser than float32; integers, booleans and strings are
 * compared exactly; sequences, optionals and maps item by item. */
bool cm_datum_close(const cm_datum *found, const cm_datum *wanted, const cm_tolerance *t, char *why,
                    size_t n);

#endif
