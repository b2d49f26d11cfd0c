// Reads the records of a sensor, on any link: sensor.c, or that of Rust and Python.
//
//     consumer URL                 for example: consumer udp://127.0.0.1:4801

#include <fluxline.h>
#include <stdio.h>

enum { PATIENCE_MS = 10000 };

int main(int count, char **words) {
    FluxlineNode *node = NULL;
    uint32_t ring, records = 0, sum = 0;
    const void *record;
    size_t bytes;
    FluxlineCode code = FLUXLINE_CODE_ARGUMENT;
    if (count == 2 && !fluxline_open(words[1], &node) &&
        !fluxline_receiver(node, "samples", 7, 1024, 4096, &ring))
        while (!(code = fluxline_next_wait(node, ring, PATIENCE_MS, &record, &bytes)))
            records++, sum += *(const unsigned char *)record;
    if (code != FLUXLINE_CODE_GONE) // it ends when the sensor has finished
        return fprintf(stderr, "consumer URL: %s\n", fluxline_error()), 1;
    printf("%u records, sum of their first bytes %u\n", records, sum);
    fluxline_close(node);
}
