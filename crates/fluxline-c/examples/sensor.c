// Pushes records of 4 KiB to a consumer, on any link: consumer.c, or that of Rust and Python.
//
//     sensor URL PEER RECORDS      for example: sensor udp://127.0.0.1:4802 127.0.0.1:4801 3000

#include <fluxline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 10000 };

int main(int count, char **words) {
    FluxlineNode *node = NULL;
    uint32_t ring;
    char record[4096];
    int bad = count != 4 || fluxline_open(words[1], &node) ||
              fluxline_sender(node, words[2], "samples", 7, PATIENCE_MS, &ring);
    for (int number = 0; !bad && number < atoi(words[3]); number++)
        bad = fluxline_push_wait(node, ring, memset(record, number, 4096), 4096, PATIENCE_MS);
    if (bad || fluxline_finish(node, ring, PATIENCE_MS))
        return fprintf(stderr, "sensor URL PEER RECORDS: %s\n", fluxline_error()), 1;
    fluxline_close(node);
}
