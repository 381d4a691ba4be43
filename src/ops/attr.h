/* attr.h -- attributes: a typed struct per operator, and a descriptor that lets everyone else read,
 * print, parse and store it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     typedef struct { uint64_t present; int64_t axis; cm_ints pads; } my_attr;   // present first
 *
 *     CM_ATTRS(my, my_attr,
 *         CM_ATTR_INT(my_attr, axis, -1),          // optional, default -1
 *         CM_ATTR_INTS(my_attr, pads, CM_REQUIRED))
 *
 * Field names are the ONNX attribute names of the newest opset. Bit i of `present` says whether
 * field i was given; a field that was not holds its default (lists: empty). */
#ifndef CM_OPS_ATTR_H
#define CM_OPS_ATTR_H

#include "base/buf.h"
#include "base/status.h"
#include "plan/tensor.h"

/* clang-format off */
typedef struct { int64_t n; const int64_t *v; } cm_ints;
typedef struct { int64_t n; const float *v; } cm_floats;
typedef struct { int64_t n; const cm_str *v; } cm_strs;
typedef struct { int64_t n; const cm_tensor *v; } cm_tensors;
/* clang-format on */

typedef enum {
    CM_A_INT,    /* int64_t */
    CM_A_FLOAT,  /* float */
    CM_A_STR,    /* cm_str */
    CM_A_INTS,   /* cm_ints */
    CM_A_FLOATS, /* cm_floats */
    CM_A_STRS,   /* cm_strs */
    CM_A_TENSOR, /* const cm_tensor *, NULL when absent; dense; sub-byte types packed */
    CM_A_TYPE    /* const cm_type *, NULL when absent */
} cm_attr_kind;

enum { CM_REQUIRED = 1 };

typedef struct cm_attr_field {
    const char *name;
    cm_attr_kind kind;
    int flags;
    size_t offset;
    double default_number;   /* INT, FLOAT */
    const char *default_str; /* STR */
} cm_attr_field;

typedef struct cm_attr_desc {
    size_t bytes; /* of the struct; 0: the operator has no attributes */
    int n_fields; /* at most 64 */
    const cm_attr_field *fields;
} cm_attr_desc;

/* clang-format off */
#define CM_ATTR_INT(s, f, dflt)    {#f, CM_A_INT, 0, offsetof(s, f), (double)(dflt), NULL}
#define CM_ATTR_INT_REQUIRED(s, f) {#f, CM_A_INT, CM_REQUIRED, offsetof(s, f), 0, NULL}
#define CM_ATTR_FLOAT(s, f, dflt)  {#f, CM_A_FLOAT, 0, offsetof(s, f), (double)(dflt), NULL}
#define CM_ATTR_FLOAT_REQUIRED(s, f) {#f, CM_A_FLOAT, CM_REQUIRED, offsetof(s, f), 0, NULL}
#define CM_ATTR_STR(s, f, dflt)    {#f, CM_A_STR, 0, offsetof(s, f), 0, dflt}
#define CM_ATTR_STR_REQUIRED(s, f) {#f, CM_A_STR, CM_REQUIRED, offsetof(s, f), 0, ""}
#define CM_ATTR_INTS(s, f, flags)   {#f, CM_A_INTS, flags, offsetof(s, f), 0, NULL}
#define CM_ATTR_FLOATS(s, f, flags) {#f, CM_A_FLOATS, flags, offsetof(s, f), 0, NULL}
#define CM_ATTR_STRS(s, f, flags)   {#f, CM_A_STRS, flags, offsetof(s, f), 0, NULL}
#define CM_ATTR_TENSOR(s, f, flags) {#f, CM_A_TENSOR, flags, offsetof(s, f), 0, NULL}
#define CM_ATTR_TYPE(s, f, flags)   {#f, CM_A_TYPE, flags, offsetof(s, f), 0, NULL}
/* clang-format on */

#define CM_ATTRS(id, struct_type, ...)                                                             \
    static const cm_attr_field id##_fields[] = {__VA_ARGS__};                                      \
    const cm_attr_desc cm_attrs_##id = {sizeof(struct_type), CM_COUNT(id##_fields), id##_fields};

/* A new attribute struct, all defaults. NULL attr when the descriptor has no fields. */
cm_status cm_attr_new(cm_ctx *cx, cm_arena *arena, const cm_attr_desc *d, void **out) CM_MUST_USE;
const cm_attr_field *cm_attr_find(const cm_attr_desc *d, const char *name);  /* NULL: none */
bool cm_attr_has(const cm_attr_desc *d, const void *attr, const char *name); /* was it given? */
/* Set one field from a value of its kind (pointer to int64_t, float, cm_str, cm_ints, ...; tensors
 * and types: pointer to the pointer) and mark it present. Lists and strings are not copied. */
void cm_attr_set(const cm_attr_desc *d, void *attr, const cm_attr_field *f, const void *value);
const void *cm_attr_get(const void *attr, const cm_attr_field *f); /* pointer to the field */
/* CM_ERR_MODEL naming the first required field that is absent. */
cm_status cm_attr_check(cm_ctx *cx, const cm_attr_desc *d, const void *attr) CM_MUST_USE;
bool cm_attr_equal(const cm_attr_desc *d, const void *a, const void *b);
/* A deep copy in `arena`. */
cm_status cm_attr_copy(cm_ctx *cx, cm_arena *arena, const cm_attr_desc *d, const void *attr,
                       void **out) CM_MUST_USE;
/* Bytes for a plan: fields by name, so that a later version may add fields. Types keep their dims'
 * integers (the plan holds the table). Reading checks everything; fields unknown to this version
 * are refused with their names. */
void cm_attr_write(const cm_attr_desc *d, const void *attr, cm_buf *out);
cm_status cm_attr_read(cm_ctx *cx, cm_arena *arena, const cm_attr_desc *d, const void *bytes,
                       size_t n, void **out) CM_MUST_USE;

#endif
