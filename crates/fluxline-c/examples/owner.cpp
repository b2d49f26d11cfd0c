// Owns a region and a ring; prints what a peer puts into them, and checks it.
//
//     owner GROUP KEY PACKETS

#include <fluxline.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

static void check(FluxlineCode code, const char *what) {
    if (code != FLUXLINE_CODE_DONE) {
        std::fprintf(stderr, "%s: %s\n", what, fluxline_error());
        std::exit(1);
    }
}

int main(int count, char **words) {
    if (count != 4) {
        std::fprintf(stderr, "usage: owner GROUP KEY PACKETS\n");
        return 2;
    }
    const std::string url = std::string("shm://") + words[1] + "/owner";
    const uint64_t key = std::strtoull(words[2], nullptr, 0);
    const uint64_t packets = std::strtoull(words[3], nullptr, 0);
    FluxlineNode *node = nullptr;
    FluxlineConsumer *ring = nullptr;
    uint32_t region = 0;
    check(fluxline_open(url.c_str(), &node), "open");
    check(fluxline_consumer(node, 1 << 16, &region, &ring), "consumer");
    check(fluxline_export(node, region, "ring", key, FLUXLINE_PUT), "export");
    std::printf("ready\n");
    std::fflush(stdout);

    uint64_t expected = 0;
    for (int idle = 0; expected < packets && idle < 500;) {
        FluxlineCompletion what;
        while (fluxline_poll(node, &what) == FLUXLINE_CODE_DONE) {
        }
        const void *record = nullptr;
        size_t bytes = 0;
        FluxlineCode code = fluxline_next(ring, &record, &bytes);
        if (code == FLUXLINE_CODE_NOTHING || code == FLUXLINE_CODE_GONE) {
            idle++;
            check(fluxline_consumer_wait(ring, 10), "wait");
            continue;
        }
        check(code, "next");
        uint64_t number = 0;
        std::memcpy(&number, static_cast<const char *>(record) + 16, sizeof number);
        if (bytes != 1472 || number != expected) {
            std::fprintf(stderr, "record %zu byte, number %llu\n", bytes,
                         static_cast<unsigned long long>(number));
            return 1;
        }
        expected++;
        idle = 0;
    }
    fluxline_consumer_close(ring);
    fluxline_close(node);
    std::printf("%llu packets\n", static_cast<unsigned long long>(expected));
    return expected == packets ? 0 : 1;
}
