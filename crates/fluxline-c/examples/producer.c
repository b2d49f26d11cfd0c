// Pushes packets of formats/counter.toml into a ring of another process.
//
//     producer GROUP PEER KEY PACKETS

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
        fprintf(stderr, "usage: producer GROUP PEER KEY PACKETS\n");
        return 2;
    }
    char url[256];
    snprintf(url, sizeof url, "shm://%s/c-producer-%d", words[1], (int)getpid());
    FluxlineNode *node = NULL;
    FluxlineProducer *ring = NULL;
    uint32_t endpoint, remote;
    uint64_t size;
    check(fluxline_open(url, &node), "open");
    check(fluxline_connect(node, words[2], FLUXLINE_RELIABLE, 5000, &endpoint), "connect");
    check(fluxline_import(node, endpoint, "ring", strtoull(words[3], NULL, 0), 5000, &remote, &size),
          "import");
    check(fluxline_producer(node, remote, &ring), "producer");

    uint8_t packet[1472] = "FLXC\1";
    packet[14] = 1; // one packet is the whole fragment
    uint64_t packets = strtoull(words[4], NULL, 0);
    for (uint64_t number = 0; number < packets; number++) {
        uint32_t low = (uint32_t)number;
        memcpy(packet + 8, &low, sizeof low);
        memcpy(packet + 16, &number, sizeof number);
        FluxlineCode code;
        while ((code = fluxline_push(ring, packet, sizeof packet)) == FLUXLINE_CODE_FULL)
            usleep(100);
        check(code, "push");
        if (number % 32 == 31)
            check(fluxline_publish(ring), "publish");
    }
    fluxline_producer_close(ring); // publishes the rest
    fluxline_close(node);
    printf("%" PRIu64 " packets\n", packets);
    return 0;
}
