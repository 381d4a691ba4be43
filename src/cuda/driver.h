/* driver.h -- the CUDA driver's functions that we call, as we declare them; no toolkit header is needed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_DRIVER_H
#define CM_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The driver's ABI: results are ints, 0 is success; devices are ints; everything else is an opaque pointer, memory of
 * the device a 64-bit address. */
typedef struct cm_cu_context *cm_cu_context;
typedef struct cm_cu_stream *cm_cu_stream;
typedef struct cm_cu_event *cm_cu_event;
typedef struct cm_cu_module *cm_cu_module;
typedef struct cm_cu_function *cm_cu_function;
typedef struct cm_cu_graph *cm_cu_graph;
typedef struct cm_cu_exec *cm_cu_exec;
typedef uint64_t cm_cu_address;

typedef struct cm_cu_attribute {
    int id;
    int pad;
    union {
        unsigned cluster[3];
        int flag;
        unsigned char bytes[64];
    } value;
} cm_cu_attribute;

typedef struct cm_cu_launch {
    unsigned grid[3], block[3], shared_bytes;
    cm_cu_stream stream;
    cm_cu_attribute *attributes;
    unsigned n_attributes;
} cm_cu_launch;

enum { /* CUresult */
       CM_CU_OUT_OF_MEMORY = 2,
       CM_CU_NO_DEVICE = 100,
       CM_CU_INVALID_DEVICE = 101,
       CM_CU_NO_BINARY = 209,
       CM_CU_DEVICE_LOST = 46, /* CUDA_ERROR_DEVICE_UNAVAILABLE */
       CM_CU_ILLEGAL_ADDRESS = 700,
       CM_CU_LAUNCH_FAILED = 719,
};

enum { /* CUdevice_attribute */
       CM_CU_CLOCK_KHZ = 13,
       CM_CU_SM_COUNT = 16,
       CM_CU_MEMORY_CLOCK_KHZ = 36,
       CM_CU_MEMORY_BUS_BITS = 37,
       CM_CU_L2_BYTES = 38,
       CM_CU_MAJOR = 75,
       CM_CU_MINOR = 76,
       CM_CU_SHARED_OPTIN = 97,
};
enum {
    CM_CU_FUNCTION_SHARED = 8,
    CM_CU_ATTRIBUTE_TOGETHER = 2,
    CM_CU_ATTRIBUTE_CLUSTER = 4,
    CM_CU_ATTRIBUTE_OVERLAP = 6
};
enum { CM_CU_CAPTURE_THREAD = 1, CM_CU_STREAM_NON_BLOCKING = 1 };

/* X(field, symbol, arguments): all must be there. */
/* clang-format off */
#define CM_CU_SYMBOLS(X)                                                                           \
    X(init, cuInit, (unsigned flags))                                                              \
    X(driver_version, cuDriverGetVersion, (int *version))                                          \
    X(error_string, cuGetErrorString, (int error, const char **text))                              \
    X(device_count, cuDeviceGetCount, (int *n))                                                    \
    X(device_get, cuDeviceGet, (int *device, int ordinal))                                         \
    X(device_name, cuDeviceGetName, (char *name, int n, int device))                               \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *bytes, int device))                             \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))             \
    X(primary_retain, cuDevicePrimaryCtxRetain, (cm_cu_context *out, int device))                  \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                                 \
    X(push, cuCtxPushCurrent_v2, (cm_cu_context c))                                                \
    X(pop, cuCtxPopCurrent_v2, (cm_cu_context *c))                                                 \
    X(memory_info, cuMemGetInfo_v2, (size_t *unused, size_t *total))                               \
    X(alloc, cuMemAlloc_v2, (cm_cu_address *out, size_t bytes))                                    \
    X(release, cuMemFree_v2, (cm_cu_address p))                                                    \
    X(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                      \
    X(host_release, cuMemFreeHost, (void *p))                                                      \
    X(upload, cuMemcpyHtoDAsync_v2, (cm_cu_address to, const void *from, size_t n, cm_cu_stream s))\
    X(download, cuMemcpyDtoHAsync_v2, (void *to, cm_cu_address from, size_t n, cm_cu_stream s))    \
    X(move, cuMemcpyDtoDAsync_v2, (cm_cu_address to, cm_cu_address from, size_t n, cm_cu_stream s))\
    X(fill, cuMemsetD8Async, (cm_cu_address to, unsigned char v, size_t n, cm_cu_stream s))        \
    X(stream_create, cuStreamCreate, (cm_cu_stream *out, unsigned flags))                          \
    X(stream_destroy, cuStreamDestroy_v2, (cm_cu_stream s))                                        \
    X(stream_wait, cuStreamSynchronize, (cm_cu_stream s))                                          \
    X(capture_begin, cuStreamBeginCapture_v2, (cm_cu_stream s, int mode))                          \
    X(capture_end, cuStreamEndCapture, (cm_cu_stream s, cm_cu_graph *out))                         \
    X(graph_make, cuGraphInstantiateWithFlags,                                                     \
      (cm_cu_exec *out, cm_cu_graph g, unsigned long long flags))                                  \
    X(graph_update, cuGraphExecUpdate_v2, (cm_cu_exec e, cm_cu_graph g, void *info))               \
    X(graph_launch, cuGraphLaunch, (cm_cu_exec e, cm_cu_stream s))                                 \
    X(graph_destroy, cuGraphDestroy, (cm_cu_graph g))                                              \
    X(exec_destroy, cuGraphExecDestroy, (cm_cu_exec e))                                            \
    X(event_create, cuEventCreate, (cm_cu_event *out, unsigned flags))                             \
    X(event_destroy, cuEventDestroy_v2, (cm_cu_event e))                                           \
    X(event_record, cuEventRecord, (cm_cu_event e, cm_cu_stream s))                                \
    X(event_record_with, cuEventRecordWithFlags, (cm_cu_event e, cm_cu_stream s, unsigned flags))  \
    X(event_wait, cuEventSynchronize, (cm_cu_event e))                                             \
    X(event_elapsed, cuEventElapsedTime, (float *ms, cm_cu_event from, cm_cu_event to))            \
    X(module_load, cuModuleLoadData, (cm_cu_module *out, const void *image))                       \
    X(module_unload, cuModuleUnload, (cm_cu_module m))                                             \
    X(module_function, cuModuleGetFunction,                                                        \
      (cm_cu_function *out, cm_cu_module m, const char *name))                                     \
    X(function_set, cuFuncSetAttribute, (cm_cu_function f, int attribute, int value))              \
    X(launch, cuLaunchKernelEx,                                                                    \
      (const cm_cu_launch *l, cm_cu_function f, void **args, void **extra))                        \
    X(tensor_map, cuTensorMapEncodeTiled,                                                          \
      (void *map, int type, unsigned rank, void *base, const uint64_t *dims,                       \
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,        \
       int swizzle, int promotion, int fill))                                                      \
    X(image_map, cuTensorMapEncodeIm2col,                                                          \
      (void *map, int type, unsigned rank, void *base, const uint64_t *dims,                       \
       const uint64_t *strides, const int *low, const int *high, uint32_t channels,                \
       uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion,         \
       int fill))
/* clang-format on */

typedef struct cm_driver {
#define X(field, symbol, arguments) int(*field) arguments;
    CM_CU_SYMBOLS(X)
#undef X
    int version; /* CUDA version of the driver: 12040 for 12.4 */
    int n_devices;
} cm_driver;

/* Opened and initialised once per process. NULL: *why says in a sentence what was not found. */
const cm_driver *cm_driver_get(const char **why);
/* A failed call as a status and a sentence. */
cm_status cm_driver_fail(cm_ctx *cx, const cm_driver *cu, int code, const char *doing);

#endif
