// Owns a region that a peer writes, on any link; prints what each notification says.
//
//     receiver URL KEY COUNT       for example: receiver udp://127.0.0.1:4791 7 3

#include <fluxline.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void check(FluxlineCode code, const char *what) {
    if (code != FLUXLINE_CODE_DONE) {
        fprintf(stderr, "%s: %s\n", what, fluxline_error());
        exit(1);
    }
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: receiver URL KEY COUNT\n");
        return 2;
    }
    FluxlineNode *node = NULL;
    uint32_t region;
    void *memory;
    uint64_t size;
    check(fluxline_open(words[1], &node), "open");
    check(fluxline_register(node, 1 << 20, &region), "register");
    check(fluxline_memory(node, region, &memory, &size), "memory");
    check(fluxline_export(node, region, "samples", strtoull(words[2], NULL, 0), FLUXLINE_PUT), "export");
    printf("ready\n");
    fflush(stdout);

    unsigned long left = strtoul(words[3], NULL, 0);
    while (left > 0) {
        FluxlineCompletion came;
        FluxlineCode code = fluxline_poll(node, &came);
        if (code == FLUXLINE_CODE_NOTHING) {
            check(fluxline_wait(node, 1000), "wait");
            continue;
        }
        check(code, "poll");
        if (came.kind == FLUXLINE_KIND_NOTIFIED) {
            const char *text = (const char *)memory + came.offset;
            printf("%" PRIu64 ": %.*s\n", came.value, (int)came.bytes, text);
            left--;
        } else if (came.kind == FLUXLINE_KIND_BROKEN) {
            fprintf(stderr, "the connection ended: %s\n", fluxline_status_name(came.status));
            return 1;
        }
    }
    fluxline_close(node);
    return 0;
}
