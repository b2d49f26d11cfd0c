// Writes into a peer's region and notifies it, on any link.
//
//     sender URL PEER KEY TEXT...  for example: sender udp://127.0.0.1:4792 127.0.0.1:4791 7 a b c

#include <fluxline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(FluxlineCode code, const char *what) {
    if (code != FLUXLINE_CODE_DONE) {
        fprintf(stderr, "%s: %s\n", what, fluxline_error());
        exit(1);
    }
}

int main(int count, char **words) {
    if (count < 5) {
        fprintf(stderr, "usage: sender URL PEER KEY TEXT...\n");
        return 2;
    }
    FluxlineNode *node = NULL;
    uint32_t endpoint, remote;
    uint64_t size;
    check(fluxline_open(words[1], &node), "open");
    check(fluxline_connect(node, words[2], FLUXLINE_RELIABLE, 5000, &endpoint), "connect");
    check(fluxline_import(node, endpoint, "samples", strtoull(words[3], NULL, 0), 5000, &remote, &size),
          "import");

    uint64_t offset = 0;
    for (int text = 4; text < count; text++) {
        size_t bytes = strlen(words[text]);
        check(fluxline_put(node, endpoint, remote, offset, words[text], bytes, text - 3, -1), "put");
        offset += bytes;
    }
    // All texts are in the peer's memory when this comes back.
    check(fluxline_flush(node, endpoint, 1), "flush");
    for (;;) {
        FluxlineCompletion came;
        FluxlineCode code = fluxline_poll(node, &came);
        if (code == FLUXLINE_CODE_NOTHING) {
            check(fluxline_wait(node, 1000), "wait");
            continue;
        }
        check(code, "poll");
        if (came.kind == FLUXLINE_KIND_COMPLETED && came.tag == 1 && came.status == 0)
            break;
        if (came.kind == FLUXLINE_KIND_BROKEN || came.status != 0) {
            fprintf(stderr, "put: %s\n", fluxline_status_name(came.status));
            return 1;
        }
    }
    fluxline_close(node);
    return 0;
}
