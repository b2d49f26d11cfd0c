// Pushes packets of formats/counter.toml into a ring of another process.
//
//     producer URL PEER KEY PACKETS
//
// for example: producer shm://lab/board run 77 100000, or
// producer udp://127.0.0.1:4793 127.0.0.1:4792 77 100000

#include <fluxline.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(FluxlineCode code, const char *what) {
    if (code != FLUXLINE_CODE_DONE) {
        fprintf(stderr, "%s: %s\n", what, fluxline_error());
        exit(1);
    }
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: producer URL PEER KEY PACKETS\n");
        return 2;
    }
    FluxlineNode *node = NULL;
    uint32_t ring;
    check(fluxline_open(words[1], &node), "open");
    check(fluxline_sender(node, words[2], "ring", strtoull(words[3], NULL, 0), 5000, &ring), "sender");

    uint8_t packet[1472] = "FLXC\1";
    packet[14] = 1; // one packet is the whole fragment
    uint64_t packets = strtoull(words[4], NULL, 0);
    for (uint64_t number = 0; number < packets; number++) {
        uint32_t low = (uint32_t)number;
        memcpy(packet + 8, &low, sizeof low);
        memcpy(packet + 16, &number, sizeof number);
        FluxlineCode code;
        while ((code = fluxline_push(node, ring, packet, sizeof packet)) == FLUXLINE_CODE_FULL)
            usleep(100);
        check(code, "push");
        if (number % 32 == 31)
            check(fluxline_publish(node, ring), "publish");
    }
    check(fluxline_finish(node, ring, 5000), "finish"); // publishes the rest
    fluxline_close(node);
    printf("%" PRIu64 " packets\n", packets);
    return 0;
}
