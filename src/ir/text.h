/* text.h -- shared by print.c and parse.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_IR_TEXT_H
#define CM_IR_TEXT_H

#include <stdbool.h>

bool cm_text_is_name_char(char c);

#endif
