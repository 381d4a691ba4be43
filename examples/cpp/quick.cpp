// quick.cpp -- an ONNX file to numbers, from C++: handles as unique_ptr, failures as exceptions.
// SPDX-License-Identifier: Apache-2.0
//
//     quick MODEL.onnx        runs it once on zeros, symbolic dims as 1
#include <cameo.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

void check(cameo_status status, const cameo_error &error)
{
    if (status != CAMEO_OK)
        throw std::runtime_error(error.message);
}

template <class T, void (*End)(T *)> struct ender {
    void operator()(T *p) const { End(p); }
};
using network_ptr = std::unique_ptr<cameo_network, ender<cameo_network, cameo_network_destroy>>;
using engine_ptr = std::unique_ptr<cameo_engine, ender<cameo_engine, cameo_engine_release>>;
using context_ptr = std::unique_ptr<cameo_context, ender<cameo_context, cameo_context_destroy>>;
using bytes_ptr = std::unique_ptr<void, ender<void, cameo_free>>;

void run(const char *path)
{
    cameo_error error;
    cameo_network *n;
    cameo_network_options options = CAMEO_NETWORK_OPTIONS_INIT;
    check(cameo_network_from_file(path, &options, &n, &error), error);
    network_ptr network(n);

    void *bytes;
    size_t size;
    check(cameo_build_memory(network.get(), nullptr, &bytes, &size, &error), error);
    bytes_ptr plan(bytes);

    cameo_engine *e;
    check(cameo_engine_open_memory(plan.get(), size, nullptr, &e, &error), error);
    engine_ptr engine(e);
    cameo_context *c;
    check(cameo_context_create(engine.get(), nullptr, &c, &error), error);
    context_ptr context(c);

    cameo_info info;
    std::vector<std::vector<float>> data(cameo_engine_input_count(e));
    for (int i = 0; i < cameo_engine_input_count(e); i++) {
        check(cameo_engine_input(e, i, &info, &error), error);
        std::printf("input  %s: %s\n", info.name, info.type_text);
        if (info.dtype != CAMEO_F32)
            throw std::runtime_error("only f32 inputs, please");
        cameo_tensor t = {};
        t.dtype = info.dtype;
        t.rank = info.rank;
        size_t elems = 1;
        for (int d = 0; d < info.rank; d++)
            elems *= t.dims[d] = info.dims[d] < 0 ? 1 : info.dims[d];
        data[i].assign(elems, 0.0f);
        t.data = data[i].data();
        t.bytes = elems * sizeof(float);
        check(cameo_context_set_input(c, i, &t, &error), error);
    }
    check(cameo_context_run(c, 0, &error), error);

    for (int i = 0; i < cameo_engine_output_count(e); i++) {
        cameo_tensor t;
        check(cameo_engine_output(e, i, &info, &error), error);
        check(cameo_context_output(c, i, &t, &error), error);
        std::printf("output %s: %s, %zu bytes\n", info.name, info.type_text, t.bytes);
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fprintf(stderr, "usage: quick MODEL.onnx\n");
        return 2;
    }
    try {
        run(argv[1]);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "quick: %s\n", e.what());
        return 1;
    }
    return 0;
}
