// Owns a push ring on any link, and checks what a peer pushes into it.
//
//     owner URL KEY PACKETS

#include <fluxline.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static void check(FluxlineCode code, const char *what) {
    if (code != FLUXLINE_CODE_DONE) {
        std::fprintf(stderr, "%s: %s\n", what, fluxline_error());
        std::exit(1);
    }
}

int main(int count, char **words) {
    if (count != 4) {
        std::fprintf(stderr, "usage: owner URL KEY PACKETS\n");
        return 2;
    }
    const uint64_t key = std::strtoull(words[2], nullptr, 0);
    const uint64_t packets = std::strtoull(words[3], nullptr, 0);
    FluxlineNode *node = nullptr;
    uint32_t ring = 0;
    check(fluxline_open(words[1], &node), "open");
    check(fluxline_receiver(node, "ring", key, 64, 1472, &ring), "receiver");
    std::printf("ready\n");
    std::fflush(stdout);

    uint64_t expected = 0;
    for (int idle = 0; expected < packets && idle < 500;) {
        const void *record = nullptr;
        size_t bytes = 0;
        FluxlineCode code = fluxline_next(node, ring, &record, &bytes);
        if (code == FLUXLINE_CODE_NOTHING || code == FLUXLINE_CODE_GONE) {
            idle++;
            check(fluxline_receiver_wait(node, ring, 10), "wait");
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
    check(fluxline_receiver_close(node, ring), "close");
    fluxline_close(node);
    std::printf("%llu packets\n", static_cast<unsigned long long>(expected));
    return expected == packets ? 0 : 1;
}
